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

from benchmarks.jvm_runtime.cells import GLOBAL_JOIN, Cell
from benchmarks.jvm_runtime.input_records import (
    PARTITIONS,
    EmbeddedLogs,
    Input,
    partitions,
    topics_of,
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
        self._on_broker: set[tuple[str, int]] = set()

    @contextmanager
    def embedded(self, what: Input, topics: Sequence[str]) -> Iterator[str]:
        """The address of an embedded log with this input, for one run."""
        with self.fresh_directory() as own:
            shutil.copytree(self._embedded.with_input(what, topics), own, dirs_exist_ok=True)
            yield f"embedded:{own}"

    def prepare_broker(self, log: Log, what: Input, topics: Sequence[str]) -> None:
        """Writes the topics, except those that have this input already."""
        missing = [topic for topic in topics if (topic, what.records) not in self._on_broker]
        there = [topic for topic in missing if topic in log.topics()]
        log.delete_topics(there)
        _wait_until(lambda: not set(there) & set(log.topics()), f"the deletion of {there}")
        write(log, what, missing)
        self._on_broker -= {each for each in self._on_broker if each[0] in missing}
        self._on_broker |= {(topic, what.records) for topic in missing}

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
            servers = stack.enter_context(self._places.embedded(self._what, topics_of(self._cell)))
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
        places.prepare_broker(self._log, what, topics_of(cell))
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
    """`begin`: runs an instance with this id and output topic, from the first to the last number of records, which is
    the least that it processes. The internal topics are read to their end after the input.
    """
    identifier = f"run-{uuid.uuid4().hex[:8]}"
    output = f"{identifier}-output"
    log.create_topics([NewTopic(output, PARTITIONS)])
    before = cell.records_before
    begin(identifier, output, before + lead_in, before + what.records)
    events, *beside = topics_of(cell)
    _wait_for_commit(log, identifier, [events, *([] if cell.application == GLOBAL_JOIN else beside)])
    for topic in sorted(name for name in log.topics() if name.startswith(identifier) and name.endswith("-topic")):
        _wait_for_commit(log, identifier, [topic])
    figures = program.end()
    found = outputs_of(read_records(log, output), every_record=cell.sends_every_record) if with_outputs else None
    return MeasuredRun(figures, found)


def _wait_for_commit(log: Log, group: str, topics: Sequence[str]) -> None:
    """Until the offsets of all records are committed."""
    of = [each for topic in topics for each in partitions(topic)]
    ends = log.end_offsets(of)

    def is_done() -> bool:
        committed = log.committed_offsets(group, of)
        return all(ends[each] == 0 or (each in committed and committed[each].offset >= ends[each]) for each in of)

    _wait_until(is_done, f"the commit of {ends} by {group}")


def _wait_until(condition: Callable[[], bool], words: str) -> None:
    until = time.monotonic() + _LONGEST_COMMIT_S
    while not condition():
        assert time.monotonic() < until, f"{words} took longer than {_LONGEST_COMMIT_S:g} s"
        time.sleep(_LOOK_S)


def start(contender: str, cell: Cell, what: Input, places: Places) -> Contender:
    """Its program is started; nothing runs yet. Raises JarsUnavailable for Kafka Streams."""
    if contender in ON_KAFKA:
        return OnBroker(contender, cell, what, places)
    if contender == EMBEDDED_2_INSTANCES:
        return OnEmbeddedLog(cell, what, places, our_instances(cell, 2))
    return OnEmbeddedLog(cell, what, places, ours(cell, 2 if contender == EMBEDDED_2 else 1))
