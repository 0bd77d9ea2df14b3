"""Reader, tasks, stores and log together, on real files: what a failover to a standby rests on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from assignor.types import TaskId, TopicPartition
from streams_runtime import BYTES, ProcessingGuarantee, StreamsConfig, key_value_store
from streams_runtime.common.clock import SystemClock
from streams_runtime.common.metrics import InstanceMetrics
from streams_runtime.common.states import TaskType
from streams_runtime.instance.restore.changelog_reader import ChangelogReader
from streams_runtime.instance.restore.restore_listener import SilentRestoreListener
from streams_runtime.logs.base import NewTopic, OffsetAndMetadata
from streams_runtime.logs.embedded import EmbeddedLog
from streams_runtime.logs.log_errors import CommitFenced
from streams_runtime.state_stores.state_store import KeyValueStore, StoreContext
from streams_runtime.tasks.standby_task import StandbyTask
from streams_runtime.tasks.state_directory import StateDirectory
from streams_runtime.tasks.state_manager import StateManager
from tests.streams_runtime.instance.restore.restoring import NoRecords, RestoringTask, as_tasks, contents, numbered

TASK = TaskId(0, 0)
COUNTS = TopicPartition("app-counts-changelog", 0)
WORDS = TopicPartition("words", 0)
PER_TRANSACTION = 500


class Member:
    """A thread of an instance with a standby of the task, exactly-once."""

    def __init__(self, directory: Path) -> None:
        self.log = EmbeddedLog(directory / "log")
        self.log.create_topics([NewTopic(COUNTS.topic, 1), NewTopic(WORDS.topic, 1)])
        self.configs = StreamsConfig(
            "app", f"embedded:{directory / 'log'}", directory / "state", ProcessingGuarantee.EXACTLY_ONCE_V2, poll_ms=10
        )
        self.directory = StateDirectory(directory / "state", "app", SystemClock())
        self.state = StateManager(
            TASK,
            TaskType.STANDBY,
            exactly_once=True,
            directory=self.directory,
            stores=[key_value_store("counts", BYTES, BYTES).build()],
            changelogs={"counts": COUNTS},
        )
        self.standby = StandbyTask(self.state, frozenset({WORDS}), configs=self.configs, clock=SystemClock())
        self.consumer = self.log.consumer(self.configs.isolation_level)
        self.reader = ChangelogReader(
            self.log,
            self.consumer,
            group_id="app",
            configs=self.configs,
            clock=SystemClock(),
            listener=SilentRestoreListener(),
            metrics=InstanceMetrics().thread("t-1"),
        )

    def content(self) -> dict[bytes, bytes]:
        store: KeyValueStore[bytes, bytes] = self.state.stores["counts"]  # type: ignore[assignment]
        return dict(store.all())

    def close(self) -> None:
        self.reader.clear()
        self.state.close()
        self.state.unlock()
        self.consumer.close()
        self.directory.close()
        self.log.close()


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Member]:
    member = Member(tmp_path)
    yield member
    member.close()


def test_should_take_over_from_a_zombie_with_committed_records_only(member: Member) -> None:
    log, reader, standby = member.log, member.reader, member.standby
    zombie = log.producer("app-zombie")
    claim = log.claim("app", [WORDS])
    for number in range(4):
        zombie.begin_transaction()
        for key, value in numbered(number * PER_TRANSACTION, (number + 1) * PER_TRANSACTION):
            zombie.send(COUNTS, key, value, 0)
        zombie.commit_transaction([(claim, {WORDS: OffsetAndMetadata(number + 1)})])
        if number == 1:
            standby.initialize_if_needed()
            reader.register(COUNTS, standby.state_manager)
            reader.transit_to_update_standby()
            while reader.restored_records(COUNTS) < 2 * PER_TRANSACTION:
                reader.restore(as_tasks({TASK: standby}), others_run=False)
            standby.post_commit(enforce_checkpoint=False)
    zombie.begin_transaction()
    zombie.send(COUNTS, b"uncommitted", b"1", 0)
    zombie.flush()
    assert member.content() == contents(0, 2 * PER_TRANSACTION)

    reader.unregister([COUNTS])
    standby.suspend()
    state = standby.recycle_state()
    log.claim("app", [WORDS])
    state.transition_to(TaskType.ACTIVE, StoreContext(TASK, state.task_directory, None, NoRecords()))
    reader.register(COUNTS, state)
    active = RestoringTask(TASK, state)
    while COUNTS not in reader.completed_changelogs():
        reader.restore(as_tasks({TASK: active}), others_run=False)
    assert reader.restored_records(COUNTS) == 2 * PER_TRANSACTION, "only what the standby did not have yet"
    assert member.content() == contents(0, 4 * PER_TRANSACTION)
    with pytest.raises(CommitFenced):
        zombie.commit_transaction([(claim, {WORDS: OffsetAndMetadata(5)})])
    assert member.content() == contents(0, 4 * PER_TRANSACTION)
