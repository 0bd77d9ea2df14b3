"""One cell: a feeder, a reader and the instances of one application, each a process of its own, as in production.

Each record carries its number and the time at which it was handed to its producer. The reader takes the time at which
its poll returned the record, so both clients count. `CLOCK_MONOTONIC` is the same for all processes of a machine. A
record that comes twice, as it may after a kill, counts when it comes first.
"""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, NamedTuple

from assignor.types import TopicPartition
from benchmarks import readme_application as readme
from streams_runtime import STRING, Application, NewTopic, RecordProducer, StreamsBuilder, open_log
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.instance.application import group_body, load_application
from streams_runtime.instance.streams_instance import StreamsInstance
from streams_runtime.membership.coordinator_client import CoordinatorClient

PARTITIONS = 2
WARM_UP_S = 2.0
"""Records of the first seconds are not counted: clients connect, and Python compiles the loops of the topology."""
AT_MOST_MS = {"at_least_once": 50.0, "exactly_once_v2": 120.0}
"""The goal for the 99th percentile of each passage through a task; 120: 1.2 commit intervals."""
_FEED_EVERY_S = 0.001
_LONGEST_START_S = 60.0
_LONGEST_REST_S = 30.0
"""How long the reader waits for records that have not come when the feeder has ended."""

_processes = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Cell:
    """`log`: embedded or kafka. `hops`: repartition topics on the way. `rate`: records a second. `killed`: an instance
    gets SIGKILL in the middle, and another one is there. `readme`: README's application, with its configs.
    """

    log: str
    guarantee: str
    hops: int
    rate: int
    killed: bool
    readme: bool = False

    @property
    def goal_ms(self) -> float | None:
        """Of the 99th percentile. None with a kill: records of the lost tasks wait for their next owner."""
        return None if self.killed else AT_MOST_MS[self.guarantee] * (self.hops + 1)

    @property
    def instances(self) -> int:
        if self.readme:
            return readme.INSTANCES
        return 2 if self.killed else 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where a cell runs. `name`: of nobody else on this log. `directory`: for what it keeps."""

    servers: str
    coordinator_url: str
    name: str
    directory: Path


class Run(NamedTuple):
    """How long each record took, in s. `lost`: how many have not come. `offered`: records a second, as the feeder
    managed.
    """

    took_s: Sequence[float]
    lost: int
    offered: float


def topics_of(cell: Cell, place: Place) -> tuple[NewTopic, NewTopic]:
    """Those of its input and its results."""
    if cell.readme:
        return NewTopic(readme.LINES, readme.PARTITIONS), NewTopic(readme.RESULTS, readme.PARTITIONS)
    return NewTopic(f"{place.name}-in", PARTITIONS), NewTopic(f"{place.name}-out", PARTITIONS)


def application(cell: Cell, place: Place) -> Application:
    """Source -> a repartition topic for each hop -> map_values -> sink, with the default configs; or README's."""
    state_dir = place.directory / f"state-{os.getpid()}"
    if cell.readme:
        shown = load_application(f"{readme.MODULE}:{readme.NAME}")
        return replace(shown, configs=replace(shown.configs, state_dir=state_dir, num_stream_threads=readme.THREADS))
    source, sink = topics_of(cell, place)
    builder = StreamsBuilder()
    stream = builder.stream(source.name, STRING, STRING)
    for hop in range(cell.hops):
        stream = stream.repartition(name=f"hop-{hop}", key_serde=STRING, value_serde=STRING)
    stream.map_values(lambda value: value).to(sink.name, key_serde=STRING, value_serde=STRING)
    configs = {
        "application.id": place.name,
        "bootstrap.servers": place.servers,
        "state.dir": str(state_dir),
        "processing.guarantee": cell.guarantee,
    }
    return Application(builder.build(), configs)


def measure(cell: Cell, place: Place, seconds: float) -> Run:
    """Leaves no topic behind. Raises StreamsRuntimeError when one of its processes fails."""
    place.directory.mkdir(parents=True)
    (place.directory / f"{readme.MODULE}.py").write_text(readme.module_text(place.servers), encoding="utf-8")
    with closing(open_log(place.servers)) as log:
        log.create_topics(topics_of(cell, place))
        try:
            return _measured(cell, place, seconds)
        finally:
            own = {topic.name for topic in topics_of(cell, place)}
            internal = f"{readme.APPLICATION_ID if cell.readme else place.name}-"
            log.delete_topics([topic for topic in log.topics() if topic in own or topic.startswith(internal)])


def _measured(cell: Cell, place: Place, seconds: float) -> Run:
    source, sink = topics_of(cell, place)
    total = round(cell.rate * (WARM_UP_S + seconds))
    instances = [_started(run_instance, cell, place) for _ in range(cell.instances)]
    started = list(instances)
    try:
        for instance in instances:
            instance.expect("running", _LONGEST_START_S)
        reader = _started(read, place.servers, sink, total, round(cell.rate * WARM_UP_S))
        started.append(reader)
        reader.expect("reading", _LONGEST_START_S)
        feeder = _started(feed, place.servers, source, total, cell.rate)
        started.append(feeder)
        if cell.killed:
            time.sleep(WARM_UP_S + seconds / 2)
            instances[0].kill()
        fed_s: float = feeder.answer(seconds * 20 + _LONGEST_START_S)
        reader.say("all are sent")
        took_s, lost = reader.answer(_LONGEST_REST_S + _LONGEST_START_S)
    finally:
        for each in started:
            each.end()
    return Run(took_s, lost, total / fed_s)


# --- the processes


class _Other:
    """Another process, and the pipe to it."""

    def __init__(self, process: SpawnProcess, pipe: Connection) -> None:
        self._process = process
        self._pipe = pipe

    def answer(self, timeout_s: float) -> Any:
        """The next thing that it says. Raises StreamsRuntimeError when it does not, or has failed."""
        try:
            if self._pipe.poll(timeout_s):
                return self._pipe.recv()
        except EOFError:
            raise StreamsRuntimeError(f"{self._process.name} failed; its output says why") from None
        raise StreamsRuntimeError(f"{self._process.name} says nothing for {timeout_s:g} s")

    def expect(self, words: str, timeout_s: float) -> None:
        answer = self.answer(timeout_s)
        if answer != words:
            raise StreamsRuntimeError(f"{self._process.name} is not {words}: {answer}")

    def say(self, words: str) -> None:
        self._pipe.send(words)

    def kill(self) -> None:
        self._process.kill()
        self._process.join()

    def end(self) -> None:
        """As its parent's end does: the pipe is closed."""
        self._pipe.close()
        self._process.join(_LONGEST_START_S)
        if self._process.is_alive():
            self.kill()


def _started(program: Callable[..., None], *arguments: object) -> _Other:
    ours, its = _processes.Pipe()
    process = _processes.Process(target=program, args=(*arguments, its), daemon=True)
    process.start()
    its.close()
    return _Other(process, ours)


def run_instance(cell: Cell, place: Place, pipe: Connection) -> None:
    """One instance, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the benchmark's, which closes the pipe
    os.chdir(place.directory)  # where README's module is
    made = application(cell, place)
    with closing(CoordinatorClient(place.coordinator_url)) as client:
        client.declare(made.id, group_body(made))
    instance = StreamsInstance(made, place.coordinator_url)
    instance.start()
    pipe.send("running" if instance.wait_until_running(_LONGEST_START_S) else f"{instance.state} {instance.errors}")
    _wait_for_the_end(pipe)
    instance.close(_LONGEST_START_S)


def feed(servers: str, topic: NewTopic, total: int, rate: int, pipe: Connection) -> None:
    """Sends so many records at that rate, and says how many seconds it took. Each is a line of one word."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with RecordProducer(servers, STRING, STRING) as producer:
        begun_s, sent = time.monotonic(), 0
        while sent < total:
            due = min(total, int((time.monotonic() - begun_s) * rate))
            while sent < due:
                text = f"{sent}:{time.monotonic()}"
                producer.send(topic.name, text, text)
                sent += 1
            producer.flush()
            time.sleep(_FEED_EVERY_S)
        pipe.send(time.monotonic() - begun_s)


def read(servers: str, topic: NewTopic, total: int, skipped: int, pipe: Connection) -> None:
    """Reads until it has every record, or no more come; says how long each took, and how many are missing.

    `skipped`: of the first records, which do not count.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with closing(open_log(servers)) as log:
        consumer = log.consumer()
        partitions = [TopicPartition(topic.name, number) for number in range(topic.partitions)]
        consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, 0)
        pipe.send("reading")
        took_s: dict[int, float] = {}
        give_up_at = float("inf")
        while len(took_s) < total and time.monotonic() < give_up_at:
            for batch in consumer.poll(100, 10_000):
                now = time.monotonic()
                for key in batch.keys:
                    number, sent_s = (key or b"").split(b":")
                    took_s.setdefault(int(number), now - float(sent_s))
            if give_up_at == float("inf") and pipe.poll():
                give_up_at = time.monotonic() + _LONGEST_REST_S
        pipe.send(([took for number, took in took_s.items() if number >= skipped], total - len(took_s)))


def _wait_for_the_end(pipe: Connection) -> None:
    try:
        pipe.recv()
    except EOFError:
        return
