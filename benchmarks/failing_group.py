"""A group whose instances are real processes of one machine, fed without a pause, to be killed one by one.

It has one coordinator process, an embedded log, a standby for each task, and exactly-once.
"""

import random
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from assignor.types import TopicPartition
from benchmarks.applications import APPLICATION_ID, EVENTS, counting, create_topics
from benchmarks.feed import FedRecord, Feed
from benchmarks.flat_out import FlatOut
from benchmarks.handovers import all_run
from benchmarks.instance_processes import InstanceProcesses
from spark_jobs.ownership.group_view import GroupView, wait_until_held
from spark_jobs.ownership.ownership_log import OwnershipLine
from streams_runtime.instance.application import group_body
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.logs.embedded import EmbeddedLog
from streams_runtime.membership.coordinator_client import CoordinatorClient

INSTANCES = 3
TASKS = 6
SESSION_TIMEOUT_MS = 500
HEARTBEAT_INTERVAL_MS = 100
COMMIT_INTERVAL_MS = 100
FEED_INTERVAL_S = 0.01
FEED_RECORDS = 3
"""To each partition each time."""
ACCEPTABLE_LAG = 300
"""One second of input: a running standby has less, state that only lies on a disk soon more."""
ACCEPTABLE_LAG_FLAT_OUT = 20_000
"""Each key changes once a commit: two seconds of changes."""
_DIFFERENT_KEYS = 1_000
_TIMEOUT_S = 60.0


class FailingGroup:
    """The group, stable when the context is entered. `directory`: for everything that it keeps. `flat_out`: it gets
    more than it can process; else each record is a change that a standby has to read.

    `feed`: of a group that runs flat out.
    """

    def __init__(self, directory: Path, *, flat_out: bool = False) -> None:
        self._directory = directory
        self._is_flat_out = flat_out
        self.feed: FlatOut | None = None
        self._address = f"embedded:{(directory / 'log').absolute()}"
        self._closing = ExitStack()
        self._declared = 0

    def __enter__(self) -> Self:
        with ExitStack() as closing:
            log = EmbeddedLog(self._directory / "log")
            closing.callback(log.close)
            create_topics(log, TASKS)
            coordinator = closing.enter_context(
                CoordinatorProcess(
                    self._directory / "coordinator",
                    {
                        "group.initial.rebalance.delay.ms": 500,
                        "group.min.session.timeout.ms": SESSION_TIMEOUT_MS,
                        "cluster.bootstrap.servers": self._address,
                    },
                )
            )
            self._client = closing.enter_context(CoordinatorClient(coordinator.url))
            self._declare()
            self._instances = closing.enter_context(
                InstanceProcesses(_configs(self._address, TASKS, self._is_flat_out), coordinator.url, self._directory)
            )
            for partition in range(INSTANCES):
                self._instances.start(partition)
            if self._is_flat_out:
                self.feed = closing.enter_context(FlatOut(log, TASKS, random.Random(TASKS)))
            else:
                closing.enter_context(Feed(log, FEED_INTERVAL_S, _events(random.Random(TASKS))))
            self._settle()
            self._closing = closing.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    @property
    def deaths(self) -> Mapping[int, float]:
        """Process id to when it got the signal that ended it, in milliseconds since the epoch."""
        return self._instances.deaths

    def lines(self) -> list[OwnershipLine]:
        """What all threads ever wrote down."""
        return self._instances.lines()

    def end(self, partition: int, number: signal.Signals) -> float:
        """Send an instance the signal that ends it: when, in milliseconds since the epoch."""
        return self._instances.end(partition, number)

    def replace(self, partition: int) -> None:
        """Start it anew, and wait until everybody has tasks, and every task runs and has a standby again."""
        self._instances.start(partition)
        self._settle()

    def _declare(self) -> None:
        """Each time a little different, so that a rebalance begins."""
        self._declared += 1
        configs = _configs(self._address, TASKS + self._declared, self._is_flat_out)
        self._client.declare(APPLICATION_ID, group_body(counting(configs)))

    def _settle(self) -> None:
        """Who comes back warms up first; the rebalance after that, which a probing rebalance would bring in ten
        minutes, is asked for.
        """
        while not _is_balanced(view := self._wait(self._has_caught_up, "everybody to have caught up")):
            self._declare()
            generation_id = view.generation_id
            self._wait(lambda seen: seen.generation_id > generation_id, "a rebalance")  # noqa: B023 -- called here only
        self._wait(lambda _: all_run(self.lines(), self.deaths, TASKS), "every task to run")

    def _has_caught_up(self, view: GroupView) -> bool:
        most = _acceptable_lag(self._is_flat_out) // 2
        return len(view.members) == INSTANCES and all(lag <= most for lag in view.lags.values())

    def _wait(self, wanted: Callable[[GroupView], bool], what: str) -> GroupView:
        return wait_until_held(self._client, APPLICATION_ID, self._instances.log_dir, wanted, what, _TIMEOUT_S)


def _events(chance: random.Random) -> Iterator[list[FedRecord]]:
    while True:
        yield [
            (TopicPartition(EVENTS, number), chance.randrange(_DIFFERENT_KEYS).to_bytes(8, "big"), b"event")
            for number in range(TASKS)
            for _ in range(FEED_RECORDS)
        ]


def _configs(address: str, warmup_replicas: int, flat_out: bool) -> dict[str, object]:
    """Flat out with the record cache that is the default."""
    every_record = {} if flat_out else {"statestore.cache.max.bytes": 0}
    return {
        "application.id": APPLICATION_ID,
        "bootstrap.servers": address,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": COMMIT_INTERVAL_MS,
        **every_record,
        "num.standby.replicas": 1,
        "max.warmup.replicas": warmup_replicas,
        "acceptable.recovery.lag": _acceptable_lag(flat_out),
        "session.timeout.ms": SESSION_TIMEOUT_MS,
        "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
        "leave.on.disconnect": False,  # as in Kafka: only the session tells of a silent death
    }


def _acceptable_lag(flat_out: bool) -> int:
    return ACCEPTABLE_LAG_FLAT_OUT if flat_out else ACCEPTABLE_LAG


def _is_balanced(view: GroupView) -> bool:
    owners = view.owners()
    return (
        len(owners) == TASKS
        and all(len(names) == 1 for names in owners.values())
        and all(len(member.active) == TASKS // INSTANCES and not member.warm_up for member in view.members)
        and {task for member in view.members for task in member.standby} == owners.keys()
    )
