"""Reader, tasks, stores and log together, on real files: what a failover to a standby rests on."""

from contextlib import closing
from pathlib import Path

import pytest

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.states import TaskType
from streams_runtime.logs.base import NewTopic, OffsetAndMetadata
from streams_runtime.logs.embedded import EmbeddedLog
from streams_runtime.logs.log_errors import CommitFenced
from streams_runtime.state_stores.state_store import StoreContext
from streams_runtime.tasks.standby_task import StandbyTask
from tests.streams_runtime.instance.restore.restoring import (
    NoRecords,
    Restoring,
    RestoringTask,
    as_tasks,
    contents,
    exactly_once,
    numbered,
)

TASK = TaskId(0, 0)
COUNTS = TopicPartition("app-counts-changelog", 0)
WORDS = TopicPartition("words", 0)
PER_TRANSACTION = 500


def test_should_take_over_from_a_zombie_with_committed_records_only(tmp_path: Path) -> None:
    with closing(EmbeddedLog(tmp_path / "log")) as log:
        log.create_topics([NewTopic(COUNTS.topic, 1), NewTopic(WORDS.topic, 1)])
        with closing(Restoring(tmp_path / "state", log, **exactly_once(), poll_ms=10)) as restoring:
            _take_over(log, restoring)


def _take_over(log: EmbeddedLog, restoring: Restoring) -> None:
    reader, state = restoring.reader, restoring.state(TASK, TaskType.STANDBY, COUNTS)
    standby = StandbyTask(state, frozenset({WORDS}), configs=restoring.configs, clock=restoring.clock)
    zombie = log.producer("app-zombie")
    claim = log.claim("app", [WORDS])
    for number in range(4):
        zombie.begin_transaction()
        for key, value in numbered(number * PER_TRANSACTION, (number + 1) * PER_TRANSACTION):
            zombie.send(COUNTS, key, value, 0)
        zombie.commit_transaction([(claim, {WORDS: OffsetAndMetadata(number + 1)})])
        if number == 1:
            standby.initialize_if_needed()
            reader.register(COUNTS, state)
            reader.transit_to_update_standby()
            while reader.restored_records(COUNTS) < 2 * PER_TRANSACTION:
                reader.restore(as_tasks({TASK: standby}), others_run=False)
            standby.post_commit(enforce_checkpoint=False)
    zombie.begin_transaction()
    zombie.send(COUNTS, b"uncommitted", b"1", 0)
    zombie.flush()
    active = restoring.tasks[TASK] = RestoringTask(TASK, state)
    assert active.content() == contents(0, 2 * PER_TRANSACTION)

    reader.unregister([COUNTS])
    standby.suspend()
    assert standby.recycle_state() is state
    log.claim("app", [WORDS])
    state.transition_to(TaskType.ACTIVE, StoreContext(TASK, state.task_directory, None, NoRecords()))
    reader.register(COUNTS, state)
    restoring.restore_until_completed(COUNTS)
    assert reader.restored_records(COUNTS) == 2 * PER_TRANSACTION, "only what the standby did not have yet"
    assert active.content() == contents(0, 4 * PER_TRANSACTION)
    with pytest.raises(CommitFenced):
        zombie.commit_transaction([(claim, {WORDS: OffsetAndMetadata(5)})])
    assert active.content() == contents(0, 4 * PER_TRANSACTION)
