"""Who is measured, and on which log each of them runs: fresh application, state and output topic for each run."""

import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from assignor.types import TopicPartition
from benchmarks.jvm_runtime.cells import Cell
from benchmarks.jvm_runtime.input_records import (
    PARTITIONS,
    EmbeddedLogs,
    Input,
    partitions,
    topic_of_events,
    topic_of_table,
    write,
)
from benchmarks.jvm_runtime.outputs import Outputs, outputs_of, read_records
from benchmarks.jvm_runtime.programs import Program, RunFigures, kafka_streams, our_instances, ours, quix
from streams_runtime import NewTopic, open_log
from streams_runtime.logs.base import Log

EMBEDDED, EMBEDDED_2, EMBEDDED_2_INSTANCES = "embedded", "embedded-2-threads", "embedded-2-instances"
KAFKA, JVM, QUIX = "kafka", "kafka-streams", "quix"
LABELS = {
    EMBEDDED: "ours, embedded log",
    EMBEDDED_2: "ours, embedded log, 2 threads",
    EMBEDDED_2_INSTANCES: "ours, embedded log, 2 instances",
    KAFKA: "ours, Kafka",
    JVM: "Kafka Streams",
    QUIX: "Quix Streams",
}
CONTENDERS = tuple(LABELS)
SEVERAL_THREADS = (EMBEDDED_2, EMBEDDED_2_INSTANCES)
ON_KAFKA = (KAFKA, JVM, QUIX)
_LOOK_S = 0.005
_LONGEST_COMMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """`outputs`: None when nobody asked for them."""

    figures: RunFigures
    outputs: Outputs | None


class Places:
    """Where the contenders find their input. `servers`: of the broker; None when nobody needs one.

    `directory`: for logs and states.
    """

    def __init__(self, directory: Path, servers: str | None) -> None:
        self.directory = directory
        self.servers = servers
        self._embedded = EmbeddedLogs(directory / "input")
        self._on_broker: set[str] = set()

    @contextmanager
    def embedded(self, what: Input, *, table: bool) -> Iterator[str]:
        """The address of an embedded log with this input, for one run."""
        with self.fresh_directory() as own:
            shutil.copytree(self._embedded.with_input(what, table=table), own, dirs_exist_ok=True)
            yield f"embedded:{own}"

    def prepare_broker(self, log: Log, what: Input, *, table: bool) -> None:
        events, of_keys = topic_of_events(what.keys), topic_of_table(what.keys)
        write(log, what, events=events not in self._on_broker, table=table and of_keys not in self._on_broker)
        self._on_broker |= {events, of_keys} if table else {events}

    @contextmanager
    def fresh_directory(self) -> Iterator[Path]:
        own = self.directory / uuid.uuid4().hex
        own.mkdir(parents=True)
        try:
            yield own
        finally:
            shutil.rmtree(own, ignore_errors=True)


class Contender(Protocol):
    """A context manager: one program for all runs of a cell."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...
    def run(self, lead_in: int, *, with_outputs: bool) -> MeasuredRun:
        """`lead_in`: events that it processes before the clock starts."""
        ...


class OnEmbeddedLog:
    """Ours, each run on a copy of the log."""

    def __init__(self, cell: Cell, what: Input, places: Places, program: Program) -> None:
        self._cell = cell
        self._what = what
        self._places = places
        self._program = program

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._program.__exit__(kind, error, at)

    def run(self, lead_in: int, *, with_outputs: bool) -> MeasuredRun:
        with ExitStack() as stack:
            servers = stack.enter_context(self._places.embedded(self._what, table=self._cell.has_table))
            log = stack.enter_context(closing(open_log(servers)))
            state = stack.enter_context(self._places.fresh_directory())

            def begin(identifier: str, output: str, first: int, last: int) -> None:
                self._program.run(identifier, state, output, first, last, servers)

            return measured_run(log, self._cell, self._what, lead_in, begin, self._program, with_outputs=with_outputs)


class OnBroker:
    """One of `ON_KAFKA`, each run with topics of its own beside the input."""

    def __init__(self, name: str, cell: Cell, what: Input, places: Places) -> None:
        assert places.servers is not None, "there is a broker"
        self._cell = cell
        self._what = what
        self._places = places
        self._own = () if name == JVM else (places.servers,)
        self._log = open_log(places.servers)
        places.prepare_broker(self._log, what, table=cell.has_table)
        if name == JVM:
            places.directory.mkdir(parents=True, exist_ok=True)
            self._program = kafka_streams(cell, places.servers, places.directory)
        else:
            self._program = quix(cell) if name == QUIX else ours(cell)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._program.__exit__(kind, error, at)
        self._log.close()

    def run(self, lead_in: int, *, with_outputs: bool) -> MeasuredRun:
        there = set(self._log.topics())
        with self._places.fresh_directory() as state:

            def begin(identifier: str, output: str, first: int, last: int) -> None:
                self._program.run(identifier, state, output, first, last, *self._own)

            try:
                return measured_run(
                    self._log, self._cell, self._what, lead_in, begin, self._program, with_outputs=with_outputs
                )
            finally:
                self._log.delete_topics(name for name in self._log.topics() if name not in there and name[0] != "_")


def measured_run(
    log: Log,
    cell: Cell,
    what: Input,
    lead_in: int,
    begin: Callable[[str, str, int, int], None],
    program: Program,
    *,
    with_outputs: bool,
) -> MeasuredRun:
    """`begin`: runs an instance with this id and output topic, from the first to the last number of records."""
    identifier = f"run-{uuid.uuid4().hex[:8]}"
    output = f"{identifier}-output"
    log.create_topics([NewTopic(output, PARTITIONS)])
    before = what.keys if cell.has_table else 0
    topics = (topic_of_events(what.keys), *((topic_of_table(what.keys),) if cell.has_table else ()))
    begin(identifier, output, before + lead_in, before + what.records)
    _wait_for_commit(log, identifier, [each for topic in topics for each in partitions(topic)])
    figures = program.end()
    found = outputs_of(read_records(log, output), every_record=cell.sends_every_record) if with_outputs else None
    return MeasuredRun(figures, found)


def _wait_for_commit(log: Log, group: str, of: Sequence[TopicPartition]) -> None:
    """Until the offsets of all records are committed."""
    ends, until = log.end_offsets(of), time.monotonic() + _LONGEST_COMMIT_S
    while True:
        committed = log.committed_offsets(group, of)
        if all(ends[each] == 0 or (each in committed and committed[each].offset >= ends[each]) for each in of):
            return
        assert time.monotonic() < until, f"{group} has committed {committed} of {ends}"
        time.sleep(_LOOK_S)


def start(contender: str, cell: Cell, what: Input, places: Places) -> Contender:
    """Its program is started; nothing runs yet. Raises JarsUnavailable for Kafka Streams."""
    if contender in ON_KAFKA:
        return OnBroker(contender, cell, what, places)
    if contender == EMBEDDED_2_INSTANCES:
        return OnEmbeddedLog(cell, what, places, our_instances(cell, 2))
    return OnEmbeddedLog(cell, what, places, ours(cell, 2 if contender == EMBEDDED_2 else 1))
