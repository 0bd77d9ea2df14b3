"""How long tasks stand still in README's application with default settings, after each way in which an instance ends.

The application, its commands and its log are those of README.md, on three real Spark executors of this machine. From
the signal until the new owner has processed a first record, for each lost task; one end counts with its slowest task.
An instance is ended when every task runs and, if it has state, has a standby that follows. Who came back may hold
standbys only: the next probing rebalance is ten minutes away, and nobody waits for balance.

The peer is Kafka Streams on the JVM, on the same broker, also with its own defaults. Each measured end is appended to a
file of results; a run on an existing file measures what is missing, and prints the table of all of it.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, TaskID

from benchmarks.failover_results import DRAINED, KILLED_JVM, KILLED_WORKER, STOPPED, MeasuredEnd, MeasuredEnds, tables
from benchmarks.handovers import Handover
from benchmarks.kafka_streams_group import KafkaStreamsGroup
from benchmarks.readme_group import Instances, ReadmeGroup
from benchmarks.turns import progress
from tests.oracle.broker import Broker
from tests.oracle.jars import JarsUnavailable

EMBEDDED, KAFKA, KAFKA_STREAMS = "embedded", "kafka", "kafka-streams"
PARTS: Mapping[str, Sequence[str]] = {
    "embedded": (EMBEDDED,),
    "kafka": (KAFKA,),
    "both": (EMBEDDED, KAFKA),
    "kafka-streams": (KAFKA_STREAMS,),
    "all": (EMBEDDED, KAFKA, KAFKA_STREAMS),
}
ENDS, DRAINS, PEER_ENDS = 20, 3, 3
WAYS: Mapping[str, Callable[[Instances], dict[str, Handover]]] = {
    KILLED_JVM: Instances.kill_executor,
    KILLED_WORKER: Instances.kill_worker,
    STOPPED: Instances.stop_worker,
}
PEER_WAYS: Mapping[str, Callable[[KafkaStreamsGroup], float]] = {
    KILLED_JVM: KafkaStreamsGroup.kill,
    STOPPED: KafkaStreamsGroup.close,
}


@dataclass(frozen=True, slots=True)
class HowOften:
    """How often each way is measured. `parts`: of EMBEDDED, KAFKA and KAFKA_STREAMS."""

    parts: Sequence[str]
    ends: int = ENDS
    drains: int = DRAINS
    peer_ends: int = PEER_ENDS

    def times(self, part: str) -> Mapping[str, int]:
        """By way."""
        if part == KAFKA_STREAMS:
            return dict.fromkeys(PEER_WAYS, self.peer_ends)
        return {**dict.fromkeys(WAYS, self.ends), DRAINED: self.drains}


def run(console: Console, *, quick: bool = False) -> None:
    """Measure everything, or with `quick` one end of each way on the embedded log; print the tables."""
    plan = HowOften(PARTS["embedded"], 1, 1, 0) if quick else HowOften(PARTS["all"])
    with tempfile.TemporaryDirectory(prefix="bench-failover-defaults-") as directory:
        measure(console, plan, MeasuredEnds(Path(directory) / "results.jsonl"))


def run_with_options(console: Console, arguments: Sequence[str]) -> None:
    """As the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks failover-defaults", description=__doc__)
    parser.add_argument("--log", choices=PARTS, default="all", help="on which log; kafka-streams: the peer alone")
    parser.add_argument("--ends", type=int, default=ENDS, help="of one instance, each way")
    parser.add_argument("--drains", type=int, default=DRAINS, help="stops of everything")
    parser.add_argument("--peer-ends", type=int, default=PEER_ENDS, help="of a JVM of Kafka Streams, each way")
    parser.add_argument("--results", type=Path, help="a file that results are added to; what it has is not run again")
    options = parser.parse_args(arguments)
    plan = HowOften(PARTS[options.log], options.ends, options.drains, options.peer_ends)
    with tempfile.TemporaryDirectory(prefix="bench-failover-defaults-") as directory:
        measure(console, plan, MeasuredEnds(options.results or Path(directory) / "results.jsonl"))


def measure(console: Console, plan: HowOften, results: MeasuredEnds) -> None:
    """Add what is missing to the results, and print a table for each part that they have."""
    with tempfile.TemporaryDirectory(prefix="bench-failover-defaults-", ignore_cleanup_errors=True) as temporary:
        directory = Path(temporary)
        with progress() as bar:
            for part in plan.parts:
                if not results.missing(part, plan.times(part)):
                    continue
                try:
                    with _log_of(part, directory) as servers:
                        _measure_part(part, servers, directory / part, plan, results, bar)
                except JarsUnavailable as reason:
                    console.print(f"{part} needs a real broker: {reason}")
    for table in tables(results.all()):
        console.print(table)


def _measure_part(
    part: str, servers: str, directory: Path, plan: HowOften, results: MeasuredEnds, bar: Progress
) -> None:
    times = plan.times(part)
    missing = results.missing(part, times)
    work = bar.add_task(part, total=len(missing))
    if part == KAFKA_STREAMS:
        _measure_peer(servers, directory, missing, results, lambda way: _advance(bar, work, part, way))
        return
    with ReadmeGroup(directory, servers) as group:
        for life in lives(missing):
            with group.instances() as instances:
                for way in life:
                    bar.update(work, description=f"{part}: waits until every task runs and has a standby")
                    instances.settle()
                    bar.update(work, description=f"{part}: {way}")
                    if way == DRAINED:
                        drained = instances.drain()
                        results.add(MeasuredEnd(part, way, drained.left, spark_ended_ms=drained.ended))
                    else:
                        results.add(slowest(part, way, WAYS[way](instances)))
                    bar.advance(work)


def _measure_peer(
    servers: str, directory: Path, missing: Sequence[str], results: MeasuredEnds, advance: Callable[[str], None]
) -> None:
    with KafkaStreamsGroup(directory, servers) as group:
        for way in missing:
            group.settle()
            results.add(MeasuredEnd(KAFKA_STREAMS, way, PEER_WAYS[way](group)))
            advance(way)


def _advance(bar: Progress, work: TaskID, part: str, way: str) -> None:
    bar.update(work, description=f"{part}: {way}")
    bar.advance(work)


def lives(missing: Sequence[str]) -> list[list[str]]:
    """The ends to measure, cut into lives of the application, each of which can only be drained once, at its end."""
    ends = [way for way in missing if way != DRAINED]
    drains = len(missing) - len(ends)
    cut = [ends[number :: drains or 1] for number in range(drains or 1)]
    return [[*life, *([DRAINED] if drains else [])] for life in cut]


def slowest(part: str, way: str, found: Mapping[str, Handover]) -> MeasuredEnd:
    """The result of one end: the task that took longest."""
    task, one = max(found.items(), key=lambda entry: entry[1].total)
    return MeasuredEnd(
        part, way, one.total, task, one.detection, one.rebalance, one.restore, one.first_record, one.records
    )


@contextmanager
def _log_of(part: str, directory: Path) -> Iterator[str]:
    """Its bootstrap.servers. Raises JarsUnavailable."""
    if part == EMBEDDED:
        yield f"embedded:{directory / 'log'}"
        return
    broker = Broker(directory / f"broker-of-{part}")
    broker.start()
    try:
        yield broker.bootstrap_servers
    finally:
        broker.stop()
