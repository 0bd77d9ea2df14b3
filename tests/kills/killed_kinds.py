"""`python -m tests.kills.killed_kinds --seeds 20`: each stateful kind, while the instances of its application die.

One application has all kinds. In a run, while it works:
1. Its only instance gets SIGKILL at a random moment, and is started again.
2. A second instance joins, and gets tasks with their state. Each task has a standby from then on.
3. One of the two instances gets SIGKILL. The standbys of the other one take over its tasks, and it is started again.
4. One of them ends in good order, and is started again.
Moments, victims, the size of the record caches, and whether stores are on disk, are drawn from the seed. The results of
each kind have to equal those of `TopologyTestDriver`, in which nothing fails.
"""

import argparse
import logging
import random
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from assignor.types import TopicPartition
from benchmarks.instance_processes import InstanceProcesses
from spark_jobs.ownership.ownership_log import OwnershipEvent
from streams_runtime.instance.application import Application, group_body
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.logs.base import NewTopic
from streams_runtime.logs.opening import open_log
from streams_runtime.logs.topic_reading import read_topic
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.serdes import STRING
from tests.kills.kinds import (
    KINDS,
    OUTPUT,
    PARTITIONS,
    compared,
    drawn_records,
    results_without_faults,
    topic,
    topology_of,
)
from tests.waiting import wait_until

SEEDS = 20
PERSISTENT, PACE_S = "test.persistent", "test.pace"
"""Configs of the application: whether its stores are in RocksDB, and how long a result takes."""

_RECORDS, _PACE_S, _WAITS_S = 200, 0.001, 180.0
_MOMENTS = (0.08, 0.25, 0.5, 0.7)
"""When the four events happen at the earliest, as shares of all records."""


def all_kinds(configs: Mapping[str, object]) -> Application:
    given = dict(configs)
    logging.getLogger("streams_runtime.dsl").setLevel(logging.ERROR)  # each record of a table out of order is a warning
    persistent, pace_s = given.pop(PERSISTENT), float(str(given.pop(PACE_S)))

    def pace(_key: object, _value: object) -> None:
        time.sleep(pace_s)

    prefix = str(given["application.id"])
    return Application(topology_of(prefix, KINDS, pace, persistent=bool(persistent)), given)


@dataclass(slots=True)
class KindResults:
    """Of several runs. `faults`: each kind with other results, as text. `events`: how often each happened.
    `unfinished`: how often the application still had work at the time of an event. `origins`: from which state a task
    started, how often.
    """

    runs: int = 0
    faults: list[str] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    unfinished: int = 0
    origins: Counter[str] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)

    def add(self, other: "KindResults") -> None:
        self.runs += other.runs
        self.faults += other.faults
        self.events += other.events
        self.unfinished += other.unfinished
        self.origins += other.origins
        self.compared += other.compared

    def __str__(self) -> str:
        events = ", ".join(f"{count} {event}" for event, count in sorted(self.events.items()))
        origins = ", ".join(f"{count} {origin}" for origin, count in sorted(self.origins.items()))
        return (
            f"{self.runs} runs of {len(KINDS)} kinds: {events}; {self.unfinished} of these while there was work; tasks "
            f"started with state: {origins}; {self.compared.total():,} results compared, {len(self.faults)} faults"
        )


class KilledKinds:
    """One run, while the context lasts. `directory`: for everything that it keeps. `servers`: of its log."""

    def __init__(self, seed: int, directory: Path, servers: str | None) -> None:
        self._seed = seed
        self._chance = random.Random(seed)
        self._id = f"kinds-{secrets.token_hex(4)}"
        self._directory = directory
        self._servers = servers or f"embedded:{(directory / 'log').absolute()}"
        self._configs: dict[str, object] = {
            "application.id": self._id,
            "bootstrap.servers": self._servers,
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": 100,
            "num.standby.replicas": 1,
            "statestore.cache.max.bytes": self._chance.choice([0, 0, 100_000]),
            "statestore.uncommitted.max.bytes": self._chance.choice([64 << 20, 20_000]),
            "session.timeout.ms": 10_000,
            "max.poll.records": self._chance.choice([50, 1_000]),
            PERSISTENT: self._chance.random() < 0.7,
            PACE_S: _PACE_S,
        }
        self._records = {name: drawn_records(self._id, name, _RECORDS, self._chance) for name in KINDS}
        self.results = KindResults(1)

    def __enter__(self) -> "KilledKinds":
        with ExitStack() as closing_all:
            self._directory.mkdir(parents=True)
            self._log = closing_all.enter_context(closing(open_log(self._servers)))
            self._write_inputs()
            coordinator = closing_all.enter_context(
                CoordinatorProcess(self._directory / "coordinator", {"cluster.bootstrap.servers": self._servers})
            )
            with CoordinatorClient(coordinator.url) as client:
                client.declare(self._id, group_body(all_kinds(self._configs)))
            self._instances = closing_all.enter_context(
                InstanceProcesses(self._configs, coordinator.url, self._directory, all_kinds)
            )
            self._closing = closing_all.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def run(self) -> KindResults:
        chance, instances = self._chance, self._instances
        moments = [moment + chance.uniform(0, 0.1) for moment in _MOMENTS]
        instances.start(0)
        self._work_until(moments[0], "SIGKILL of the only instance")
        self._end(0, signal.SIGKILL)
        self._work_until(moments[1], "second instance")
        instances.start(1)
        wait_until(lambda: all(self._held(number) for number in range(2)), self._output, _WAITS_S)
        victim = chance.randrange(2)
        self._work_until(moments[2], "SIGKILL of one of two instances")
        self._end(victim, signal.SIGKILL)
        wait_until(lambda: all(self._held(number) for number in range(2)), self._output, _WAITS_S)
        self._work_until(moments[3], "restart in good order")
        self._end(chance.randrange(2), signal.SIGTERM)
        wait_until(self._is_finished, self._output, _WAITS_S)
        for number in list(instances.pids):
            instances.end(number, signal.SIGTERM)
        instances.wait_until_ended()
        lines = instances.lines()
        self.results.origins.update(str(line.origin) for line in lines if line.event is OwnershipEvent.RESTORED)
        self._compare()
        return self.results

    def _write_inputs(self) -> None:
        records = [record for sides in self._records.values() for side in sides.values() for record in side]
        inputs = sorted({record.topic for record in records})
        outputs = [topic(self._id, name, OUTPUT) for name in KINDS]
        self._log.create_topics([NewTopic(each, PARTITIONS) for each in (*inputs, *outputs)])
        rows = {topic(self._id, name, side) for name, kind in KINDS.items() for side in kind.rows}
        self._inputs = [
            TopicPartition(each, number) for each in inputs if each not in rows for number in range(PARTITIONS)
        ]
        with closing(self._log.producer()) as producer:
            for record in records:
                partition = TopicPartition(record.topic, record.partition)
                value = None if record.value is None else record.value.encode()
                producer.send(partition, record.key.encode(), value, record.timestamp_ms)
            producer.flush()
        self._ends = sum(self._log.end_offsets(self._inputs).values())

    def _done(self) -> int:
        committed = self._log.committed_offsets(self._id, self._inputs)
        return sum(each.offset for each in committed.values())

    def _work_until(self, share: float, event: str) -> None:
        """`share`: of all records."""
        wait_until(lambda: self._done() >= share * self._ends, self._output, _WAITS_S)
        time.sleep(self._chance.uniform(0, 0.1))  # so that the moment is at any place between two commits
        self.results.unfinished += self._done() < self._ends
        self.results.events[event] += 1

    def _end(self, number: int, how: signal.Signals) -> None:
        self._instances.end(number, how)
        self._instances.wait_until_ended()
        self._instances.start(number)

    def _held(self, number: int) -> bool:
        """The present process of the instance has active tasks."""
        pid = self._instances.pids[number]
        held = [line.active for line in self._instances.lines() if line.pid == pid]
        return bool(held and held[-1])

    def _is_finished(self) -> bool:
        """All records are processed, and those in internal topics that result from them."""
        if self._done() < self._ends:
            return False
        internal = [
            TopicPartition(name, number)
            for name in self._log.topics()
            if name.startswith(self._id) and name.endswith(("-repartition", "-topic"))
            for number in range(PARTITIONS)
        ]
        ends = self._log.end_offsets(internal)
        committed = self._log.committed_offsets(self._id, internal)
        return all(end == 0 or (each in committed and committed[each].offset >= end) for each, end in ends.items())

    def _compare(self) -> None:
        is_cached = self._configs["statestore.cache.max.bytes"] != 0
        for name, kind in KINDS.items():
            answer = kind.cached if is_cached and kind.cached is not None else kind.answer
            expected = compared(results_without_faults(self._id, name, self._records[name]), answer)
            written = read_topic(self._log, topic(self._id, name, OUTPUT), STRING, STRING)
            got = compared([(str(each.key), each.value, each.timestamp_ms) for each in written], answer)
            self.results.compared[name] += len(expected)
            if got != expected:
                wrong = [key for key in expected.keys() | got.keys() if expected.get(key) != got.get(key)]
                key = min(wrong, key=str)
                self.results.faults.append(
                    f"seed {self._seed}, {name} ({answer.value}): {len(wrong)} of {len(expected)} differ, "
                    f"such as {key}: {_shown(got.get(key))} instead of {_shown(expected.get(key))}; {self._configs}"
                )

    def _output(self) -> str:
        file = self._directory / "instances.log"
        text = file.read_text(encoding="utf-8", errors="replace")[-5_000:] if file.exists() else "no output"
        return f"seed {self._seed}: {self._done()} of {self._ends} records are done\n{text}"


def _shown(value: object) -> str:
    return str(value)[:300]


def run(seeds: Sequence[int], servers: str | None = None, keep: Path | None = None) -> KindResults:
    results = KindResults()
    for seed in seeds:
        with tempfile.TemporaryDirectory(prefix="killed-kinds-") as temporary:
            directory = (keep or Path(temporary)) / f"seed-{seed}"
            began_s = time.monotonic()
            with KilledKinds(seed, directory, servers) as killed:
                try:
                    of_seed = killed.run()
                except AssertionError as error:
                    of_seed = killed.results
                    of_seed.faults.append(str(error))
        results.add(of_seed)
        print(f"seed {seed}, {time.monotonic() - began_s:.1f} s: {of_seed}", *of_seed.faults, sep="\n", flush=True)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kills.killed_kinds", description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, help="the first one (default: a fresh one)")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="(default: %(default)s)")
    parser.add_argument("--bootstrap-servers", help="of a Kafka cluster (default: embedded logs)")
    parser.add_argument("--keep", type=Path, help="a directory that stays, for logs and state")
    options = parser.parse_args()
    first = secrets.randbits(32) if options.seed is None else options.seed
    results = run(range(first, first + options.seeds), options.bootstrap_servers, options.keep)
    print(results)
    return 1 if results.faults else 0


if __name__ == "__main__":
    sys.exit(main())
