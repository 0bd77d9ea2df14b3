"""A table whose source topic is its changelog, with a standby: whole instances, one of them a process that is killed.

The active instance is held in the middle of its records by a gate, a locked file, so that it has processed what it has
not committed. The standby is in this process, and is looked into.
"""

import fcntl
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from assignor.configs import AssignmentConfigs
from assignor.pipeline.snapshot import RebalanceSnapshot
from assignor.topology.cluster import Broker, Cluster, TopicMetadata
from assignor.types import ProcessId, TaskId, TopicPartition
from streams_runtime import STRING, StreamsBuilder
from streams_runtime.common.states import RestoreOrigin, TaskType
from streams_runtime.instance.application import Application
from streams_runtime.instance.instance_resources import InstanceOptions
from streams_runtime.instance.restore.changelog_reader import ChangelogReader
from streams_runtime.instance.streams_instance import StreamsInstance
from streams_runtime.instance.thread_listener import TaskRestored
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.logs.base import Log, NewTopic
from streams_runtime.logs.opening import open_log
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.tasks.state_directory import PROCESS_FILE_NAME
from tests.streams_runtime.logs.processes import running_program, say
from tests.streams_runtime.running_group import AT_LEAST_ONCE, EXACTLY_ONCE
from tests.streams_runtime.small_group import GroupDefinition
from tests.streams_runtime.word_counting import TIMEOUT_S, RememberingListener, wait_for

PRICES = TopicPartition("prices", 0)
TASK = TaskId(0, 0)
HELD = "held"
"""The instance stops at a record with this value until the gate is open."""


def price_application(application_id: str, directory: Path, instance: str, guarantee: str) -> Application:
    configs = {
        "application.id": application_id,
        "bootstrap.servers": f"embedded:{directory / 'log'}",
        "state.dir": directory / instance,
        "processing.guarantee": guarantee,
        "topology.optimization": "all",
        "commit.interval.ms": 50,
        "poll.ms": 50,
        "session.timeout.ms": 1_000,
        "heartbeat.interval.ms": 50,
        "statestore.cache.max.bytes": 0,  # the gate holds each record, also one that a later one replaces
    }
    builder = StreamsBuilder()
    table = builder.table(PRICES.topic, STRING, STRING, store="prices")
    table.to_stream().for_each(partial(wait_at_the_gate, directory / "gate"))
    return Application(builder.build(configs), configs)


def wait_at_the_gate(gate: Path, _key: object, value: object) -> None:
    if value == HELD:
        with gate.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH)


def run_until_killed(url: str, application_id: str, directory: str, guarantee: str) -> None:
    """The process with the active task."""
    instance = StreamsInstance(price_application(application_id, Path(directory), "active", guarantee), url)
    instance.start()
    assert instance.wait_until_running(TIMEOUT_S)
    say("running")
    instance.wait()


@dataclass
class Prices:
    """The topic, what a table of its records is, and the standby's instance. `written`: values by offset."""

    id: str
    directory: Path
    log: Log
    written: list[tuple[str, str | None]] = field(default_factory=list)

    def write(self, *values: str | None) -> None:
        """Each under one of a few keys, so that records replace others."""
        producer = self.log.producer()
        for value in values:
            key, number = f"k{len(self.written) % 4}", len(self.written)
            raw = None if value is None else STRING.serialize(value)
            producer.send(PRICES, STRING.serialize(key), raw, 1_000 + number)
            self.written.append((key, value))
        producer.close()

    def table(self, end: int) -> dict[str, str]:
        """Of the records below this offset."""
        newest = dict(self.written[:end])
        return {key: value for key, value in newest.items() if value is not None}

    @property
    def committed(self) -> int:
        found = self.log.committed_offsets(self.id, [PRICES]).get(PRICES)
        return 0 if found is None else found.offset


class Standby:
    """An instance of this process, with what its thread has read and applied."""

    def __init__(self, prices: Prices, instance: StreamsInstance) -> None:
        self._prices = prices
        self.instance = instance

    @property
    def role(self) -> TaskType | None:
        copies = self.instance.copies()
        return copies[0].role if copies else None

    def table(self) -> dict[str, str]:
        copies = self.instance.copies()
        return {} if not copies else {key: kept.value for key, kept in copies[0].stores["prices"].all()}  # type: ignore[attr-defined]

    @property
    def position(self) -> int:
        """The first offset that is not applied. Never past what the group has committed."""
        position = self._reader.positions().get(PRICES, 0)
        assert position <= self._prices.committed, "the standby is past the group's committed offset"
        return position

    @property
    def buffered(self) -> int:
        """The number of records that were read and wait for the limit to move."""
        return sum(len(batch) for batch in self._reader._changelogs[PRICES].buffered)

    @property
    def reads(self) -> bool:
        """Whether its consumer reads the topic, and is not paused."""
        return PRICES in self._reader._consumer.reading

    @property
    def lag(self) -> int | None:
        lags = [task.lag for thread in self.instance.status().threads for task in thread.tasks]
        return lags[0] if lags else None

    @property
    def _reader(self) -> ChangelogReader:
        (thread,) = self.instance._threads
        return thread._work._reader

    def wait_until_applied(self, end: int) -> None:
        wait_for(lambda: self.position == end, lambda: (self.position, end, self.instance.status()))
        assert self.table() == self._prices.table(end)


@pytest.fixture
def prices(request: pytest.FixtureRequest, client: CoordinatorClient, tmp_path: Path) -> Iterator[Prices]:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[-60:]
    log = open_log(f"embedded:{tmp_path / 'log'}")
    log.create_topics([NewTopic(PRICES.topic, 1, {"retention.ms": "-1"})])
    for number, instance in enumerate(("active", "standby")):  # the lower process gets the task
        kept = tmp_path / instance / name / PROCESS_FILE_NAME
        kept.parent.mkdir(parents=True)
        kept.write_text(json.dumps({"processId": str(ProcessId(0, number + 1))}))
    topic = TopicMetadata(1, ((1,),), (1,))
    client.declare(
        name,
        GroupDefinition(
            name,
            RebalanceSnapshot(
                assignor="HighAvailabilityTaskAssignor",
                configs=AssignmentConfigs(num_standby_replicas=1),
                application_id=name,
                topology=price_application(name, tmp_path, "active", EXACTLY_ONCE).group_topology(),
                cluster=Cluster((Broker(1),), {PRICES.topic: topic}),
                members={},
                committed_offsets={PRICES.topic: (0,)},
            ),
        ).body(),
    )
    (tmp_path / "gate").touch()
    try:
        yield Prices(name, tmp_path, log)
    finally:
        log.close()


@contextmanager
def closed(gate: Path) -> Iterator[None]:
    with gate.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def standby_instance(
    client: CoordinatorClient, prices: Prices, guarantee: str
) -> Iterator[tuple[Standby, list[TaskRestored]]]:
    """And what it restored of active tasks."""
    told = RememberingListener()
    instance = StreamsInstance(
        price_application(prices.id, prices.directory, "standby", guarantee),
        client,
        InstanceOptions(thread_listener=lambda _name: told),
    )
    instance.start()
    standby = Standby(prices, instance)
    try:
        wait_for(lambda: standby.role is TaskType.STANDBY, instance.status)
        yield standby, told.restores
    finally:
        instance.close(TIMEOUT_S)


@pytest.mark.parametrize("guarantee", [EXACTLY_ONCE, pytest.param(AT_LEAST_ONCE, marks=pytest.mark.long)])
def test_should_apply_to_a_standby_what_the_group_has_committed_and_lose_nothing_when_the_active_process_is_killed(
    coordinator: CoordinatorProcess, client: CoordinatorClient, prices: Prices, guarantee: str
) -> None:
    gate = prices.directory / "gate"
    with ExitStack() as stack:
        active = stack.enter_context(running_program(__name__, coordinator.url, prices.id, prices.directory, guarantee))
        assert active.line() == "running"
        standby, restores = stack.enter_context(standby_instance(client, prices, guarantee))
        prices.write(*map(str, range(10)))
        standby.wait_until_applied(10)
        assert prices.committed == 10

        with closed(gate):
            prices.write("10", "11", HELD, None, "14")
            wait_for(lambda: standby.buffered > 0, standby.instance.status)
            buffered = standby.buffered
            prices.write("15", "16")
            wait_for(lambda: standby.lag == 7, standby.instance.status)  # it has seen that there is more
            assert (standby.position, standby.table(), prices.committed) == (10, prices.table(10), 10)
            assert (standby.buffered, standby.reads) == (buffered, False), "it is paused: nothing more is read"
        standby.wait_until_applied(17)
        wait_for(lambda: standby.reads and standby.buffered == 0, standby.instance.status)

        with closed(gate):
            prices.write(None, "18", HELD, "20", None, "22")
            wait_for(lambda: standby.buffered > 0, standby.instance.status)
            assert standby.position == 17
            active.kill()
            wait_for(lambda: standby.role is TaskType.ACTIVE, standby.instance.status)
        wait_for(lambda: prices.committed == 23, lambda: (prices.committed, standby.instance.status()))
        assert standby.table() == prices.table(23)
        assert [(each.origin, each.records) for each in restores] == [(RestoreOrigin.STANDBY, 0)]
        prices.write("23", None)
        wait_for(lambda: prices.committed == 25, standby.instance.status)
        assert standby.table() == prices.table(25)
        assert standby.instance.errors == ()


if __name__ == "__main__":
    run_until_killed(*sys.argv[1:])
