"""Tasks as the group moves them: new, kept, recycled, revoked, lost, corrupt; with real stores, on a log in memory."""

from pathlib import Path
from typing import Any

import pytest

from assignor.types import TopicPartition
from streams_runtime.common.errors import StreamsRuntimeError, TaskCorrupted, TaskMigrated
from streams_runtime.common.states import RestoreOrigin, TaskState
from streams_runtime.state_stores.rocksdb import RocksDBStore
from streams_runtime.tasks.record_collector import StreamsProducer
from streams_runtime.tasks.standby_task import StandbyTask
from streams_runtime.tasks.stream_task import StreamTask
from tests.streams_runtime.tasks.file_store import store_context
from tests.streams_runtime.tasks.thread_rig import (
    APPLICATION,
    AT_LEAST,
    COUNT_0,
    COUNT_1,
    EVERYTHING,
    EXACTLY,
    SENTENCES,
    SPLIT_0,
    SPLIT_1,
    MakeRig,
    Rig,
    busy,
    rig,
)
from tests.streams_runtime.word_counting import LONG, STORE, TEXT, CountWord, SplitLine


def test_should_start_what_is_new_and_close_what_is_not_assigned_any_more(thread: Rig) -> None:
    thread.write(SENTENCES)
    thread.run(EVERYTHING)
    assert thread.totals() == dict(thread.words)
    thread.work.manager.handle_revocation(frozenset({SPLIT_1, COUNT_1}))
    thread.assign([SPLIT_0, COUNT_0])
    assert thread.states() == {"active 0_0": "running", "active 1_0": "running"}
    assert thread.directory.lock_owner(COUNT_1) is None
    assert thread.directory.stored_offsets(COUNT_1), "a clean close leaves a checkpoint"


def test_should_leave_running_tasks_alone_when_they_are_assigned_again(thread: Rig) -> None:
    thread.run([SPLIT_0, COUNT_0], [COUNT_1])
    before = list(thread.tasks)
    thread.assign([SPLIT_0, COUNT_0], [COUNT_1])
    assert list(thread.tasks) == before
    assert {task.state for task in thread.tasks} == {TaskState.RUNNING}


def test_should_go_on_with_a_suspended_task_when_it_is_assigned_again(thread: Rig) -> None:
    thread.write(SENTENCES)
    thread.run(EVERYTHING)
    suspended = thread.task(COUNT_0)
    thread.work.manager.handle_revocation(frozenset({COUNT_0}))
    assert suspended.state is TaskState.SUSPENDED
    thread.write(SENTENCES)
    thread.run(EVERYTHING)
    assert thread.task(COUNT_0) is suspended
    thread.passes()
    assert thread.totals() == dict(thread.words)
    assert thread.written() == sum(thread.words.values())


def test_should_recycle_an_active_task_and_back_without_closing_its_store(thread: Rig) -> None:
    thread.write(SENTENCES)
    thread.run(EVERYTHING)
    store = thread.task(COUNT_0).stores[STORE]
    thread.work.manager.handle_revocation(frozenset({COUNT_0}))
    thread.run([SPLIT_0, SPLIT_1, COUNT_1], [COUNT_0])
    assert isinstance(thread.task(COUNT_0), StandbyTask)
    assert thread.task(COUNT_0).stores[STORE] is store
    thread.told.restores.clear()
    thread.run(EVERYTHING)
    assert isinstance(thread.task(COUNT_0), StreamTask)
    assert thread.task(COUNT_0).stores[STORE] is store
    assert store.is_open
    assert [(each.task_id, each.origin, each.records) for each in thread.told.restores] == [
        (COUNT_0, RestoreOrigin.STANDBY, 0)
    ]
    thread.write(SENTENCES)
    thread.passes()
    assert thread.totals() == dict(thread.words)
    assert thread.written() == sum(thread.words.values())


def test_should_write_nothing_into_the_store_of_a_fenced_task_that_becomes_a_standby(thread: Rig) -> None:
    thread.write(SENTENCES)
    thread.run(EVERYTHING)
    before = thread.totals()
    thread.write(SENTENCES)
    thread.one_pass()
    thread.commits = False
    thread.passes()
    assert thread.task(COUNT_0).commit_needed()
    thread.log.claim(APPLICATION, thread.task(COUNT_0).input_partitions)
    with pytest.raises(TaskMigrated):
        thread.assign([SPLIT_0, SPLIT_1, COUNT_1], [COUNT_0])
    store = RocksDBStore(STORE)
    store.open(store_context(COUNT_0, thread.directory.task_directory(COUNT_0)))
    stored = {TEXT.deserialize(key): LONG.deserialize(value) for key, value in store.scan(None, None)}
    store.close()
    assert stored
    assert stored.items() <= before.items()


@pytest.mark.parametrize("worked", [True, False])
def test_should_commit_records_of_closing_ones(thread: Rig, monkeypatch: pytest.MonkeyPatch, worked: bool) -> None:
    """Written any later it would stand behind what the task's next owner has written by then."""
    monkeypatch.setattr(CountWord, "close", lambda self: self._counts.put("closed", 1))
    thread.run(EVERYTHING)
    if worked:
        thread.write(SENTENCES)
        thread.commits = False
        thread.passes(3)
    thread.work.manager.handle_revocation(frozenset({COUNT_0}))
    changelog = TopicPartition(f"{APPLICATION}-{STORE}-changelog", COUNT_0.partition)
    end = thread.log.end_offsets([changelog])[changelog]
    assert end > 0
    thread.log.claim(APPLICATION, thread.task(COUNT_0).input_partitions)
    thread.assign([SPLIT_0, SPLIT_1, COUNT_1])
    assert thread.directory.stored_offsets(COUNT_0) == {changelog: end - 1}
    thread.commits = True
    thread.passes()
    assert thread.log.end_offsets([changelog]) == {changelog: end}


def test_should_commit_the_transaction_of_all_tasks_with_the_records_of_closing_ones(
    make: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CountWord, "close", lambda self: self._counts.put("closed", 1))
    thread = make(EXACTLY)
    thread.run(EVERYTHING)
    thread.write(SENTENCES)
    thread.commits = False
    thread.passes()
    assert not thread.task(COUNT_0).commit_needed()
    thread.work.manager.handle_revocation(frozenset({COUNT_0}))
    assert thread.committed().items() >= {"lines-0": 10, "lines-1": 10}.items(), "their words are committed"


def test_should_write_nothing_later_of_an_uncommitted_task(make: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under at-least-once what it sent is with the producer that all tasks share, while the log has more records."""
    thread = make(AT_LEAST, max_poll_records=len(SENTENCES))
    thread.run(EVERYTHING)
    thread.write(SENTENCES)
    thread.commits = False
    thread.passes(1)
    with monkeypatch.context() as patched:
        patched.setattr(StreamsProducer, "commit", busy)
        thread.work.manager.handle_revocation(frozenset({SPLIT_0}))
    thread.log.claim(APPLICATION, thread.task(SPLIT_0).input_partitions)
    thread.assign([SPLIT_1, COUNT_0, COUNT_1])
    thread.commits = True
    thread.passes()
    assert thread.totals() == {"the": 20, "cat": 10, "and": 10, "dog": 10}, "lines of the other partition only"


def test_should_make_no_standby_of_a_task_without_logged_stores(thread: Rig) -> None:
    thread.run([], [SPLIT_0, COUNT_0])
    assert thread.states() == {"standby 1_0": "running"}


def test_should_commit_before_a_revoked_task_is_given_up(thread: Rig) -> None:
    thread.commits = False
    thread.write(SENTENCES)
    thread.assign([SPLIT_0, SPLIT_1])
    thread.passes()
    before = thread.committed()
    thread.work.manager.handle_revocation(frozenset({SPLIT_0}))
    committed = thread.committed()
    exactly_once = thread.work._configs.exactly_once
    others = {"lines-1": 10} if exactly_once else {}
    assert before == {}
    assert committed == {"lines-0": 10, **others}, "under exactly-once there is one transaction for all"
    assert thread.states() == {"active 0_0": "suspended", "active 0_1": "running"}


def test_should_commit_nothing_when_what_is_revoked_has_nothing_to_commit(thread: Rig) -> None:
    thread.assign([SPLIT_0, SPLIT_1])
    thread.passes()
    before = thread.committed()
    thread.work.manager.handle_revocation(frozenset({SPLIT_0}))
    assert thread.committed() == before == {"lines-0": 0, "lines-1": 0}, "where they began"
    assert thread.states() == {"active 0_0": "suspended", "active 0_1": "running"}


def test_should_start_revoked_tasks_over_if_a_commit_times_out(thread: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    thread.commits = False
    thread.write(SENTENCES)
    thread.assign(EVERYTHING)
    thread.passes()
    with monkeypatch.context() as patched:
        patched.setattr(StreamsProducer, "commit", busy)
        thread.work.manager.handle_revocation(frozenset({SPLIT_0}))
    assert thread.committed() == {}
    assert thread.states()["active 0_0"] == "created", "nothing of it is left that could be committed later"
    thread.commits = True
    thread.assign(EVERYTHING)
    thread.passes(20)
    expected = dict(thread.words)
    if thread.work._configs.exactly_once:
        assert thread.totals() == expected
        assert thread.written() == sum(expected.values())
    else:
        assert {word: min(count, expected[word]) for word, count in thread.totals().items()} == expected


def test_should_drop_lost_tasks_without_committing_and_keep_standbys(thread: Rig) -> None:
    thread.commits = False
    thread.write(SENTENCES)
    thread.assign([SPLIT_0, SPLIT_1, COUNT_0], [COUNT_1])
    thread.passes()
    thread.work.manager.handle_lost_all()
    assert thread.states() == {"standby 1_1": "running"}
    assert thread.committed() == {}
    assert thread.directory.lock_owner(COUNT_0) is None
    assert thread.directory.stored_offsets(COUNT_0) == {}, "its changes were not committed"
    if thread.work._configs.exactly_once:
        assert thread.totals() == {}


def test_should_close_a_restoring_task_clean_when_it_is_lost(thread: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    thread.write(SENTENCES)
    thread.run(EVERYTHING)
    thread.work.manager.handle_revocation(frozenset(EVERYTHING))
    thread.assign()
    thread.assign([COUNT_0])
    monkeypatch.setattr(StreamTask, "complete_restoration", busy)
    thread.passes(3)
    assert thread.states() == {"active 1_0": "restoring"}
    thread.work.manager.handle_lost_all()
    assert thread.states() == {}
    assert thread.directory.stored_offsets(COUNT_0), "what it restored was committed by others, so it is true"


def test_should_start_only_the_corrupt_task_over(thread: Rig) -> None:
    thread.write(SENTENCES)
    thread.run(EVERYTHING)
    other, corrupt = thread.task(COUNT_1), thread.task(COUNT_0)
    assert thread.work.manager.handle_corruption(frozenset({COUNT_0}))
    assert thread.states()["active 1_0"] == "created"
    assert corrupt.state is TaskState.CREATED
    assert other.state is TaskState.RUNNING
    assert thread.directory.is_empty(COUNT_0), "it starts from the changelog's beginning"
    thread.told.restores.clear()
    thread.passes()
    (restored,) = thread.told.restores
    assert (restored.task_id, restored.origin) == (COUNT_0, RestoreOrigin.BEGINNING)
    assert restored.records > 0
    thread.write(SENTENCES)
    thread.passes()
    assert thread.totals() == dict(thread.words)
    assert thread.written() == sum(thread.words.values())


@pytest.mark.parametrize("has_own_stores", [False, True])
def test_should_delete_uncommitted_changes_of_stores_of_users_own_classes(thread: Rig, has_own_stores: bool) -> None:
    thread.write(SENTENCES)
    thread.run(EVERYTHING)
    thread.active(COUNT_0).state_manager.checkpoint.is_needed = has_own_stores
    assert thread.work.manager.handle_corruption(frozenset({COUNT_0}), damaged=frozenset())
    assert thread.directory.is_empty(COUNT_0) is has_own_stores


def test_should_commit_the_others_before_a_corrupt_task_starts_over(thread: Rig) -> None:
    thread.commits = False
    thread.write(SENTENCES)
    thread.assign([SPLIT_0, SPLIT_1], [COUNT_0])
    thread.passes()
    assert not thread.work.manager.handle_corruption(frozenset({COUNT_0})), "a standby concerns nobody else"
    assert thread.committed() == {"lines-0": 10, "lines-1": 10}
    assert thread.states() == {"active 0_0": "running", "active 0_1": "running", "standby 1_0": "created"}


def test_should_drop_unsent_records_of_a_corrupt_task(make: MakeRig) -> None:
    """If they were written after the restore of the task has ended, its stores would lack them."""
    thread = make(AT_LEAST, max_poll_records=4)
    thread.write(SENTENCES)
    thread.run([SPLIT_0, SPLIT_1])
    thread.commits = False
    thread.assign([SPLIT_0, SPLIT_1, COUNT_0])
    thread.passes(3)
    changelog = TopicPartition(f"{APPLICATION}-{STORE}-changelog", COUNT_0.partition)
    assert thread.task(COUNT_0).commit_needed()
    assert thread.log.end_offsets([changelog]) == {changelog: 0}
    assert thread.work.manager.handle_corruption(frozenset({COUNT_0}), damaged=frozenset())
    thread.commits = True
    thread.passes()
    words = sum(thread.totals().values())
    assert words > 0
    assert thread.log.end_offsets([changelog]) == {changelog: words}


def test_should_abort_the_whole_transaction_when_a_corrupt_task_wrote_in_it(make: MakeRig) -> None:
    thread = make(EXACTLY)
    thread.commits = False
    thread.write(SENTENCES)
    thread.assign([SPLIT_0, SPLIT_1, COUNT_0])
    thread.passes()
    assert thread.producer.transaction_in_flight
    assert thread.work.manager.handle_corruption(frozenset({SPLIT_0}))
    assert not thread.producer.transaction_in_flight
    assert thread.committed() == {}
    assert thread.states()["active 0_0"] == thread.states()["active 0_1"] == "created", "both had records in it"
    thread.commits = True
    thread.run(EVERYTHING)
    thread.passes()
    assert thread.totals() == dict(thread.words)
    assert thread.written() == sum(thread.words.values())


def test_should_close_all_tasks_and_raise_the_worst_error(thread: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    thread.run(EVERYTHING)
    monkeypatch.setattr(SplitLine, "close", lambda _self: 1 / 0)
    with pytest.raises(StreamsRuntimeError, match="close"):
        thread.work.manager.handle_revocation(frozenset(EVERYTHING))
    assert set(thread.states().values()) == {"suspended"}
    thread.assign([COUNT_0])
    assert thread.states() == {"active 1_0": "restoring"}


def test_should_let_another_instance_go_on_with_revoked_tasks_not_closed_yet(tmp_path: Path, guarantee: str) -> None:
    leaving = rig(tmp_path / "a", guarantee, name="leaving")
    leaving.write(SENTENCES)
    leaving.run(EVERYTHING, [])
    leaving.commits = False
    leaving.write(SENTENCES)
    leaving.passes()
    assert leaving.work.manager.hand_in()
    assert set(leaving.states().values()) == {"suspended"}
    assert leaving.active(COUNT_0).stores[STORE].is_open

    staying = rig(tmp_path / "b", guarantee, name="staying", log=leaving.log, topics=False)
    staying.run(EVERYTHING)
    staying.write(SENTENCES)
    staying.words += leaving.words
    staying.passes()
    leaving.work.manager.shutdown()
    assert leaving.states() == {}
    assert leaving.directory.stored_offsets(COUNT_0), "closed in good order"
    staying.passes()
    assert staying.totals() == dict(staying.words), "and without disturbing who has the tasks now"
    staying.close()
    leaving.close()


def test_should_close_everything_when_a_clean_shutdown_fails(thread: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    thread.run(EVERYTHING)
    with monkeypatch.context() as patched:
        patched.setattr(SplitLine, "close", lambda _self: 1 / 0)
        with pytest.raises(StreamsRuntimeError):
            thread.work.manager.shutdown()
    assert thread.states() == {}
    assert all(thread.directory.lock_owner(task) is None for task in EVERYTHING)


def test_should_handle_a_corruption_found_while_others_commit(thread: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    thread.run(EVERYTHING)
    thread.write(SENTENCES)
    thread.commits = False
    thread.passes()
    real = StreamTask.prepare_commit

    def corrupt(task: StreamTask) -> Any:
        if task.id == SPLIT_1:
            raise TaskCorrupted([SPLIT_1])
        return real(task)

    with monkeypatch.context() as patched:
        patched.setattr(StreamTask, "prepare_commit", corrupt)
        assert thread.work.manager.handle_corruption(frozenset({COUNT_0}))
    assert thread.states()["active 1_0"] == "created"
    thread.commits = True
    for _ in range(5):
        try:
            thread.passes()
        except TaskCorrupted as more:
            thread.work.manager.handle_corruption(more.tasks)
    assert {word: min(count, thread.words[word]) for word, count in thread.totals().items()} == dict(thread.words)
    if thread.work._configs.exactly_once:
        assert thread.written() == sum(thread.words.values())
