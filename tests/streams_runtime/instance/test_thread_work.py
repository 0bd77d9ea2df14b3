"""One pass of a thread's loop: commits in time, waiting, purging, restoring beside running tasks, offset sums."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from assignor.types import LATEST_OFFSET, TopicPartition
from streams_runtime.common.errors import TaskMigrated, TaskTimeout
from streams_runtime.logs.base import RecordBatch
from streams_runtime.logs.log_errors import LogTimeout
from streams_runtime.processors.api import PunctuationType
from streams_runtime.state_stores.rocksdb import RocksDBStore
from streams_runtime.tasks.record_collector import StreamsProducer
from streams_runtime.tasks.stream_task import StreamTask
from tests.streams_runtime.tasks.file_store import store_context
from tests.streams_runtime.tasks.thread_rig import (
    APPLICATION,
    AT_LEAST,
    COUNT_0,
    COUNT_1,
    EVERYTHING,
    SENTENCES,
    SPLIT_0,
    SPLIT_1,
    MakeRig,
    Rig,
    busy,
)
from tests.streams_runtime.tasks.watched_log import WatchedLog
from tests.streams_runtime.word_counting import PARTITIONS, STORE, TOTALS


def test_should_commit_again_in_the_next_pass_after_a_time_out(thread: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    thread.assign([SPLIT_0])
    thread.passes()
    thread.write(SENTENCES)
    with monkeypatch.context() as patched:
        patched.setattr(StreamsProducer, "commit", busy)
        thread.passes()
        assert thread.committed() == {"lines-0": 0}
    thread.commits = False  # the interval is not over; it is late
    thread.one_pass()
    assert thread.committed() == {"lines-0": 10}


def test_should_count_from_the_last_commit(make: MakeRig, guarantee: str, monkeypatch: pytest.MonkeyPatch) -> None:
    thread = make(guarantee, commit_interval_ms=100)
    commit = StreamsProducer.commit

    def slow(*arguments: Any, **named: Any) -> object:
        thread.clock.ms += 400
        return commit(*arguments, **named)

    thread.run([SPLIT_0])
    thread.commits = False
    monkeypatch.setattr(StreamsProducer, "commit", slow)
    committed = []
    for passed_ms in (100, 99, 1):
        thread.write(["the cat"] * PARTITIONS)
        thread.clock.ms += passed_ms
        thread.one_pass()
        committed.append(thread.committed()["lines-0"])
    assert committed == [1, 1, 3]


@pytest.mark.parametrize(("most_bytes", "committed"), [(500, 4), (100_000, 1), (-1, 1)])
def test_should_commit_early_when_the_stores_have_too_much_that_is_not_committed(
    make: MakeRig, guarantee: str, most_bytes: int, committed: int
) -> None:
    def write_words(*words: bytes) -> None:
        with closing(thread.log.producer()) as producer:
            for word in words:
                producer.send(TopicPartition(f"{APPLICATION}-words", 0), word, word, 1_000)

    thread = make(guarantee, statestore_uncommitted_max_bytes=most_bytes)
    write_words(b"a")
    thread.run([COUNT_0])
    thread.commits = False  # the interval is not over
    write_words(b"b", b"c")  # two keys of more than 200 bytes each
    thread.passes(3)
    assert thread.committed()[f"{APPLICATION}-words-0"] == 1
    write_words(b"d")
    thread.passes(3)
    assert thread.committed()[f"{APPLICATION}-words-0"] == committed


def test_should_process_nothing_else_until_a_transaction_has_ended_whose_commit_timed_out(
    make: MakeRig, guarantee: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log may be ending it: what another task sent meanwhile would be in no transaction, and be lost."""
    thread = make(guarantee)
    thread.run([SPLIT_0, SPLIT_1])
    processed = thread.work._executor.processed
    with monkeypatch.context() as patched:
        patched.setattr(StreamsProducer, "commit", busy)
        thread.write(["a"])  # of the first task
        thread.passes(2)
        assert processed == {SPLIT_0: 1}
        thread.write(["b", "c"])  # one of each
        thread.passes(2)
        exactly_once = thread.producer.exactly_once
        assert processed == ({SPLIT_0: 1} if exactly_once else {SPLIT_0: 2, SPLIT_1: 1})
    thread.passes()
    assert processed == {SPLIT_0: 2, SPLIT_1: 1}
    assert thread.committed() == {"lines-0": 2, "lines-1": 1}


def test_should_give_up_after_task_timeout(make: MakeRig, guarantee: str, monkeypatch: pytest.MonkeyPatch) -> None:
    thread = make(guarantee, task_timeout_ms=5_000)
    thread.write(SENTENCES)
    monkeypatch.setattr(StreamsProducer, "commit", busy)
    thread.assign([SPLIT_0])
    thread.passes(5)
    with pytest.raises(TaskTimeout, match=r"0_0.*task.timeout.ms"):
        thread.passes(5)


def test_should_not_count_a_jump_of_the_clock_as_no_progress(thread: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    thread.run(EVERYTHING)
    thread.write(SENTENCES)
    with monkeypatch.context() as patched:
        patched.setattr(StreamsProducer, "commit", busy)
        thread.passes(1)
        patched.setattr(type(thread.clock), "now_ms", lambda _clock: 10**12)
        thread.passes(1)
    thread.passes()
    assert thread.totals() == dict(thread.words)


def test_should_reset_its_position_in_the_end(make: MakeRig, guarantee: str, monkeypatch: pytest.MonkeyPatch) -> None:
    thread = make(guarantee)
    thread.run([SPLIT_0])
    (source,) = thread.active(SPLIT_0).input_partitions
    thread.write(SENTENCES)
    end = thread.log.end_offsets([source])[source]
    thread.log.delete_records({source: end})
    with monkeypatch.context() as patched:
        patched.setattr(type(thread.log), "begin_offsets", busy)
        thread.passes(2)
    thread.passes(2)
    assert thread.committed() == {str(source): end}


def test_should_purge_repartition_records_that_were_processed(make: MakeRig, guarantee: str) -> None:
    thread = make(guarantee, repartition_purge_interval_ms=3_000)
    thread.write(SENTENCES)
    thread.run(EVERYTHING)
    for _ in range(4):
        thread.write(SENTENCES)
        thread.passes(2)
    words = [TopicPartition(f"{APPLICATION}-words", number) for number in range(2)]
    begin = thread.log.begin_offsets(words)
    assert sum(begin.values()) > 0
    assert all(begin[p] <= thread.committed()[str(p)] for p in words)
    assert thread.log.begin_offsets([TopicPartition("lines", 0)]) == {TopicPartition("lines", 0): 0}
    assert thread.totals() == dict(thread.words)


def test_should_report_latest_for_running_tasks_else_positions(thread: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    thread.write(SENTENCES)
    thread.run(EVERYTHING)
    assert thread.work.manager.offset_sums() == {COUNT_0: LATEST_OFFSET, COUNT_1: LATEST_OFFSET}
    thread.work.manager.handle_revocation(frozenset({COUNT_0}))
    ends = thread.log.end_offsets([TopicPartition(f"{APPLICATION}-{STORE}-changelog", n) for n in range(2)])
    written = [max(offset, 0) for _, offset in sorted(ends.items())]
    sums = thread.work.manager.offset_sums()
    assert sums[COUNT_1] == LATEST_OFFSET
    assert 0 < sums[COUNT_0] <= written[0]
    position = sums[COUNT_0]
    thread.run([SPLIT_0, SPLIT_1, COUNT_1], [COUNT_0])
    assert thread.work.manager.offset_sums()[COUNT_0] == position, "a standby is told by its position"
    monkeypatch.setattr(StreamTask, "complete_restoration", busy)
    thread.assign(EVERYTHING)
    thread.passes(2)
    assert thread.states()["active 1_0"] == "restoring"
    assert thread.work.manager.offset_sums()[COUNT_0] == position, "a restoring active is no previous active"


def test_should_report_closed_tasks_by_their_checkpoints_from_one_thread_only(make: MakeRig, guarantee: str) -> None:
    first = make(guarantee, name="t-0")
    first.write(SENTENCES)
    first.run(EVERYTHING)
    first.work.manager.handle_revocation(frozenset(EVERYTHING))
    position = first.work.manager.offset_sums()[COUNT_0]
    first.assign()
    assert first.work.manager.offset_sums() == {}, "before a rebalance nobody answers for what is closed"
    first.work.manager.handle_rebalance_start()
    assert first.work.manager.offset_sums()[COUNT_0] == position
    first.work.manager.handle_rebalance_start()
    assert first.work.manager.offset_sums()[COUNT_0] == position, "asking twice changes nothing"
    assert first.directory.lock_owner(COUNT_0) is not None
    first.assign()
    assert first.directory.lock_owner(COUNT_0) is None, "what was not assigned is unlocked"
    assert first.work.manager.offset_sums() == {}


def test_should_not_report_offsets_of_stores_that_the_topology_does_not_have(thread: Rig) -> None:
    thread.write(SENTENCES)
    thread.run(EVERYTHING)
    thread.work.manager.handle_revocation(frozenset(EVERYTHING))
    thread.assign()
    removed = RocksDBStore("removed")
    changelog = TopicPartition("app-removed-changelog", 0)
    removed.open(replace(store_context(COUNT_0, thread.directory.task_directory(COUNT_0)), changelog=changelog))
    removed.write({b"key": b"value"}, 1_000_000)
    removed.close()
    thread.work.manager.handle_rebalance_start()
    assert thread.work.manager.offset_sums()[COUNT_0] < 1_000


def test_should_not_make_another_thread_wait_for_a_directory_it_only_reports(make: MakeRig, guarantee: str) -> None:
    thread = make(guarantee, name="t-0")
    thread.write(SENTENCES)
    thread.run(EVERYTHING)
    thread.work.manager.handle_revocation(frozenset(EVERYTHING))
    thread.assign()
    thread.work.manager.handle_rebalance_start()
    assert COUNT_0 in thread.work.manager.offset_sums()

    with ThreadPoolExecutor(1) as other:
        assert other.submit(thread.directory.lock, COUNT_0).result(), "it was assigned the task"
        assert COUNT_0 not in thread.work.manager.offset_sums(), "from here on the other thread reports it"
        thread.assign()
        assert thread.directory.lock_owner(COUNT_0) is not None, "the assignment took nothing from it"
        other.submit(thread.directory.unlock, COUNT_0).result()


def test_should_report_nothing_for_a_corrupt_task(thread: Rig) -> None:
    thread.write(SENTENCES)
    thread.run(EVERYTHING)
    thread.work.manager.handle_corruption(frozenset({COUNT_0}))
    thread.work.manager.handle_rebalance_start()
    assert COUNT_0 not in thread.work.manager.offset_sums()


def test_should_try_again_when_another_thread_still_has_the_directory(make: MakeRig, guarantee: str) -> None:
    thread = make(guarantee)
    locked, release = threading.Event(), threading.Event()

    def hold() -> None:
        assert thread.directory.lock(COUNT_0)
        locked.set()
        release.wait(10)
        thread.directory.unlock(COUNT_0)

    holder = threading.Thread(target=hold)
    holder.start()
    assert locked.wait(10)
    thread.assign([COUNT_0])
    thread.passes(3)
    assert thread.states() == {"active 1_0": "created"}
    assert thread.work.restoration.waits_for_lock
    release.set()
    holder.join()
    thread.passes()
    assert thread.states() == {"active 1_0": "running"}


def test_should_restore_beside_running_tasks_which_go_on(make: MakeRig, guarantee: str) -> None:
    thread = make(guarantee, restore_batch_records=1)
    thread.write(["the cat and the dog"] * 50)
    thread.run(EVERYTHING)
    thread.passes()
    thread.work.manager.handle_revocation(frozenset({COUNT_0, COUNT_1}))
    thread.assign([SPLIT_0, SPLIT_1])
    for task in (COUNT_0, COUNT_1):
        thread.directory.wipe(task)
    thread.assign(EVERYTHING)
    restored_in_one_pass = set()
    while thread.tasks.restoring or thread.tasks.to_initialise:
        before = thread.work._executor.processed.get(SPLIT_0, 0)
        thread.write(["a b", "c d"])
        restoring = {task.id: thread.work.restoration.restored(task) for task in thread.tasks.restoring}
        thread.one_pass()
        for still in thread.tasks.restoring:
            restored_in_one_pass.add(thread.work.restoration.restored(still) - restoring.get(still.id, 0))
        assert thread.work._executor.processed[SPLIT_0] > before, "a running task is not held up"
    assert max(restored_in_one_pass) <= 1
    thread.passes()
    assert thread.totals() == dict(thread.words)


def test_should_wait_for_records_no_longer_than_to_the_next_commit(thread: Rig) -> None:
    thread.commits = False
    thread.run([SPLIT_0])
    assert thread.work._wait_ms() == 50, "poll.ms"
    thread.write(SENTENCES)
    thread.one_pass()
    assert thread.work._wait_ms() == 50 - (thread.clock.ms - thread.work._last_commit_ms)
    thread.clock.ms += 20
    assert thread.work._wait_ms() == 30


def test_should_not_wait_for_records_after_a_pass_with_work(thread: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[int] = []
    thread.run([SPLIT_0])
    consumer = thread.work._consumer
    real = consumer.poll

    def remember(wait_ms: int, most: int) -> list[RecordBatch]:
        waits.append(wait_ms)
        return real(0, most)

    monkeypatch.setattr(consumer, "poll", remember)
    thread.write(SENTENCES)
    for _ in range(3):
        thread.work.poll(may_wait=True)
        thread.work.process()
    assert waits == [50, 0, 50], "the second poll followed a pass that processed records"
    thread.work.poll(may_wait=False)
    assert waits[-1] == 0, "the group has news"


def words_written(thread: Rig) -> int:
    """How many words have come to the repartition topic."""
    return sum(thread.log.end_offsets([TopicPartition(f"{APPLICATION}-words", number) for number in range(2)]).values())


def test_should_write_what_was_sent_without_a_commit_when_the_log_has_no_more_records(make: MakeRig) -> None:
    thread = make(AT_LEAST)
    thread.run(EVERYTHING)
    thread.commits = False  # from here on the clock stands still
    thread.write(["the cat"])
    thread.one_pass()
    assert words_written(thread) == 2
    assert thread.totals() == {}
    thread.one_pass()
    assert thread.totals() == {"the": 1, "cat": 1}, "also behind the repartition topic"
    assert set(thread.committed().values()) == {0}, "where it began, and not how far it is"


def test_should_let_records_come_together_for_linger_ms_while_the_log_has_more(make: MakeRig) -> None:
    thread = make(AT_LEAST, max_poll_records=2, commit_interval_ms=3_600_000)
    thread.run([SPLIT_0, SPLIT_1])
    thread.commits = False
    thread.write(["a"] * 12)
    thread.passes(3)
    assert thread.work._executor.processed == {SPLIT_0: 3, SPLIT_1: 3}
    assert words_written(thread) == 0
    thread.clock.ms += 99
    thread.one_pass()
    assert words_written(thread) == 0
    thread.clock.ms += 1
    thread.one_pass()
    assert words_written(thread) == 9, "the second task had its turn after that"
    thread.passes(2)
    assert words_written(thread) == 12, "the last poll found nothing"


def test_should_write_what_was_sent_before_it_waits(make: MakeRig) -> None:
    """Here a thread that was paused: its last poll was full, so more records were about to come."""
    thread = make(AT_LEAST, max_poll_records=2, linger_ms=1_000_000)
    thread.run([SPLIT_0, SPLIT_1])
    thread.commits = False
    thread.write(["a"] * 2)
    thread.one_pass()
    thread.paused.set()
    thread.one_pass()
    assert words_written(thread) == 2


def test_should_write_what_a_punctuation_has_sent_without_a_commit(make: MakeRig) -> None:
    thread = make(AT_LEAST)
    thread.run(EVERYTHING)
    runtime = thread.active(COUNT_0).runtime

    def write(at_ms: int) -> None:
        runtime.collector.sink("punctuated", TOTALS)(b"punctuated", bytes(8), at_ms, ())

    thread.schedule(COUNT_0, PunctuationType.WALL_CLOCK_TIME, write)
    thread.commits = False
    thread.clock.ms += 1
    thread.one_pass()
    assert thread.totals() == {"punctuated": 0}


def test_should_write_nothing_without_a_commit_when_another_owner_has_claimed_the_task(make: MakeRig) -> None:
    thread = make(AT_LEAST)
    thread.run(EVERYTHING)
    thread.commits = False
    thread.write(["the cat"])
    thread.log.claim(APPLICATION, thread.active(SPLIT_0).input_partitions)
    with pytest.raises(TaskMigrated, match="writing what was sent"):
        thread.passes(2)
    assert words_written(thread) == 0


def test_should_leave_waiting_to_the_restore_when_nothing_runs(thread: Rig) -> None:
    thread.run([], [COUNT_0])
    assert thread.work._wait_ms() == 0


def test_should_have_opened_its_producer_before_it_has_to_take_over(make: MakeRig, guarantee: str) -> None:
    log = WatchedLog()
    thread = make(guarantee, log=log)
    thread.work.prepare_takeover()
    assert log.count("producer") == 0, "without a standby it need not hurry"

    thread.run(standby=[COUNT_0])
    log.fail["producer"] = LogTimeout("away")
    thread.work.prepare_takeover()
    log.fail.clear()
    thread.work.prepare_takeover()
    thread.work.prepare_takeover()
    assert log.count("producer") == 2
    thread.run([COUNT_0])
    assert log.count("producer") == 2
