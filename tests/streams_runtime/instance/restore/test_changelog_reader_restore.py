"""Active tasks: from where, up to where, in what order, and who is told."""

import pytest

from assignor.errors import IllegalStateError
from assignor.types import TopicPartition
from streams_runtime.common.errors import ChangelogOfAnotherKind, TaskCorrupted
from streams_runtime.logs.base import IsolationLevel
from streams_runtime.state_stores.window_keys import window_key
from tests.streams_runtime.instance.restore.conftest import StartReader
from tests.streams_runtime.instance.restore.failing_log import FailingLog
from tests.streams_runtime.instance.restore.restoring import (
    APPLICATION,
    Restoring,
    contents,
    create,
    exactly_once,
    fill,
    numbered,
    write,
)
from tests.streams_runtime.logs.reading_and_writing import commit, compact

COUNTS = TopicPartition("app-counts-changelog", 0)


def test_should_go_from_registered_over_restoring_to_completed(restoring: Restoring, log: FailingLog) -> None:
    fill(log, COUNTS, 10)
    task = restoring.add(COUNTS)
    assert (restoring.reader.positions(), restoring.reader.completed_changelogs()) == ({}, set())

    assert restoring.restore(only=[]) == 0
    assert restoring.reader.positions() == {}, "a task that is left out is not even started"

    assert restoring.restore() == 10
    assert restoring.reader.completed_changelogs() == {COUNTS}
    assert task.content() == contents(0, 10)
    assert restoring.restore() == 0
    assert not restoring.reader.is_empty(), "completed changelogs stay until their task leaves"


def test_should_not_register_a_changelog_twice(restoring: Restoring, log: FailingLog) -> None:
    create(log, COUNTS.topic)
    task = restoring.add(COUNTS)
    with pytest.raises(IllegalStateError, match="app-counts-changelog-0 is registered already"):
        restoring.reader.register(COUNTS, task.state)


def test_should_fix_the_end_offset_when_the_restore_starts(start: StartReader, log: FailingLog) -> None:
    restoring = start(restore_batch_records=4)
    fill(log, COUNTS, 10)
    task = restoring.add(COUNTS)
    restoring.restore(others_run=True)
    write(log, COUNTS, numbered(10, 20))
    restoring.restore_until_completed(COUNTS)
    assert task.content() == contents(0, 10)
    assert restoring.listener.told[0] == ("start", str(COUNTS), "counts", (0, 10))
    assert restoring.listener.told[-1] == ("end", str(COUNTS), "counts", (10,))


def test_should_apply_nothing_beyond_the_end_when_a_batch_lies_across_it(restoring: Restoring, log: FailingLog) -> None:
    fill(log, COUNTS, 10)
    commit(log, APPLICATION, {COUNTS: 7})
    task = restoring.add(COUNTS, source=True)
    restoring.restore_until_completed(COUNTS)
    assert task.content() == contents(0, 7)
    assert task.state.changelog_offsets() == {COUNTS: 7}
    assert [told for told in restoring.listener.told if told[0] == "batch"] == [
        ("batch", str(COUNTS), "counts", (6, 7))
    ]


@pytest.mark.parametrize(("committed", "end"), [(7, 7), (12, 10), (None, 0)])
def test_should_end_at_the_smaller_of_end_and_committed_offset_when_the_changelog_is_a_source_topic(
    restoring: Restoring, log: FailingLog, committed: int | None, end: int
) -> None:
    fill(log, COUNTS, 10)
    if committed is not None:
        commit(log, APPLICATION, {COUNTS: committed})
    task = restoring.add(COUNTS, source=True)
    restoring.restore_until_completed(COUNTS)
    assert task.content() == contents(0, end)
    assert restoring.listener.told[0] == ("start", str(COUNTS), "counts", (0, end))


@pytest.mark.parametrize("guarantee", [{}, exactly_once()], ids=["at_least_once", "exactly_once"])
def test_should_restore_to_the_watermark(start: StartReader, log: FailingLog, guarantee: dict[str, object]) -> None:
    restoring = start(**guarantee)
    create(log, COUNTS.topic)
    restoring.add(COUNTS)
    restoring.restore()
    assert log.isolations == [IsolationLevel.READ_UNCOMMITTED]


def test_should_restore_no_record_of_an_open_or_aborted_transaction(start: StartReader, log: FailingLog) -> None:
    restoring = start(**exactly_once())
    create(log, COUNTS.topic)
    producer = log.producer("app-1")
    for key, commits in ((b"first", True), (b"aborted", False), (b"second", True)):
        producer.begin_transaction()
        producer.send(COUNTS, key, b"1", 0)
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.begin_transaction()
    producer.send(COUNTS, b"open", b"1", 0)
    producer.flush()
    task = restoring.add(COUNTS)
    restoring.restore_until_completed(COUNTS)
    producer.commit_transaction()
    assert restoring.restore() == 0
    assert task.content() == {b"first": b"1", b"second": b"1"}


def test_should_complete_at_once_when_there_is_nothing_to_restore(restoring: Restoring, log: FailingLog) -> None:
    create(log, "full-changelog")
    create(log, COUNTS.topic)
    full = TopicPartition("full-changelog", 0)
    write(log, full, numbered(0, 3))
    restoring.add(COUNTS)
    restoring.add(full, applied=2)
    assert restoring.restore() == 0
    assert restoring.reader.completed_changelogs() == {COUNTS, full}
    assert log.polls == [], "nothing has to be read to know that"
    assert restoring.listener.told == [
        ("start", str(COUNTS), "counts", (0, 0)),
        ("start", str(full), "counts", (3, 3)),
        ("end", str(COUNTS), "counts", (0,)),
        ("end", str(full), "counts", (0,)),
    ]


def test_should_complete_when_the_last_offset_is_a_transaction_marker(restoring: Restoring, log: FailingLog) -> None:
    fill(log, COUNTS, 10)
    log.end_marker = True
    task = restoring.add(COUNTS)
    restoring.restore_until_completed(COUNTS, passes=3)
    assert task.content() == contents(0, 10)
    assert restoring.listener.told[0] == ("start", str(COUNTS), "counts", (0, 11))


def test_should_complete_when_compaction_left_a_gap_where_the_end_is(restoring: Restoring, log: FailingLog) -> None:
    create(log, COUNTS.topic, cleanup_policy="compact", segment_bytes="1")
    write(log, COUNTS, [*numbered(0, 4), *[(b"again", b"%d" % number) for number in range(4, 9)]])
    write(log, COUNTS, [(b"last", b"9")])
    compact(log.log, COUNTS.topic)
    commit(log, APPLICATION, {COUNTS: 6})
    task = restoring.add(COUNTS, source=True)
    restoring.restore_until_completed(COUNTS, passes=3)
    assert task.content() == contents(0, 4), "offsets 4 to 7 are a gap; 8 and 9 lie beyond the end"


def test_should_be_as_far_as_the_end_when_the_changelog_was_emptied(restoring: Restoring, log: FailingLog) -> None:
    fill(log, COUNTS, 5)
    log.delete_records({COUNTS: 5})
    task = restoring.add(COUNTS)
    restoring.restore_until_completed(COUNTS)
    assert (task.content(), task.state.changelog_offsets()) == ({}, {COUNTS: 5})


def test_should_pass_over_records_without_a_key(restoring: Restoring, log: FailingLog) -> None:
    create(log, COUNTS.topic)
    producer = log.producer()
    for key in (b"a", None, b"b", None):
        producer.send(COUNTS, key, b"1", 0, (("h", b"1"),))
    producer.flush()
    task = restoring.add(COUNTS)
    restoring.restore_until_completed(COUNTS)
    assert task.content() == {b"a": b"1", b"b": b"1"}
    assert restoring.reader.restored_records(COUNTS) == 2


def test_should_hand_whole_batches_to_the_store(start: StartReader, log: FailingLog) -> None:
    restoring = start(restore_batch_records=500)
    fill(log, COUNTS, 1_200)
    restoring.add(COUNTS)
    restoring.restore_until_completed(COUNTS)
    batches = [told[3] for told in restoring.listener.told if told[0] == "batch"]
    assert batches == [(499, 500), (999, 500), (1_199, 200)]
    assert restoring.reader.restored_records(COUNTS) == 1_200


def test_should_pause_a_partition_when_it_is_restored(start: StartReader, log: FailingLog) -> None:
    restoring = start(restore_batch_records=10)
    small, big = create(log, "small-changelog"), create(log, "big-changelog")
    write(log, small, numbered(0, 2))
    write(log, big, numbered(0, 1_000))
    restoring.add(small)
    restoring.add(big)
    restoring.restore(others_run=True)
    assert restoring.reader.completed_changelogs() == {small}
    assert restoring.consumer.assignment() == {small, big}
    assert restoring.consumer.paused() == {small}


@pytest.mark.parametrize("when", ["registered", "restoring", "completed"])
def test_should_let_a_task_go_in_every_state(start: StartReader, log: FailingLog, when: str) -> None:
    restoring = start(restore_batch_records=4)
    fill(log, COUNTS, 10)
    restoring.add(COUNTS)
    for _ in range({"registered": 0, "restoring": 1, "completed": 3}[when]):
        restoring.restore(others_run=True)
    told_before = len(restoring.listener.told)
    restoring.reader.unregister([COUNTS, TopicPartition("unknown", 0)])
    suspended = [("suspended", str(COUNTS), "counts", (4,))] if when == "restoring" else []
    assert restoring.listener.told[told_before:] == suspended
    assert restoring.reader.is_empty()
    assert restoring.consumer.assignment() == frozenset()
    assert restoring.reader.restored_records(COUNTS) == 0
    assert restoring.restore() == 0


def test_should_call_only_the_task_corrupt_whose_offset_is_out_of_range(restoring: Restoring, log: FailingLog) -> None:
    ahead, healthy = create(log, "ahead-changelog"), create(log, "healthy-changelog")
    write(log, ahead, numbered(0, 10))
    write(log, healthy, numbered(0, 10))
    log.delete_records({ahead: 8})
    corrupt = restoring.add(ahead, applied=3)
    task = restoring.add(healthy)
    with pytest.raises(TaskCorrupted, match="ahead-changelog-0 at 4") as raised:
        restoring.restore()
    assert raised.value.tasks == {corrupt.id}
    restoring.reader.unregister([ahead])
    restoring.restore_until_completed(healthy)
    assert task.content() == contents(0, 10)


def test_should_call_only_the_task_corrupt_that_is_ahead_of_its_log(restoring: Restoring, log: FailingLog) -> None:
    new, healthy = create(log, "new-changelog"), create(log, "healthy-changelog")
    corrupt = restoring.add(new, applied=41)
    restoring.add(healthy)
    with pytest.raises(TaskCorrupted) as raised:
        restoring.restore()
    assert raised.value.tasks == {corrupt.id}
    assert restoring.reader.completed_changelogs() == {healthy}
    assert [told[:2] for told in restoring.listener.told] == [("start", str(healthy)), ("end", str(healthy))]


def test_should_restore_active_tasks_again_after_the_last_task_left(restoring: Restoring, log: FailingLog) -> None:
    create(log, COUNTS.topic)
    restoring.add(COUNTS, standby=True)
    restoring.reader.transit_to_update_standby()
    restoring.reader.unregister([COUNTS])
    assert not restoring.reader.updates_standbys


# --- what a window store has left

_A_WINDOW = window_key(b"k", 1_700_000_040_000, 0)


@pytest.mark.parametrize("standby", [False, True])
@pytest.mark.parametrize("key", [_A_WINDOW, window_key(b"k", 0, 3)], ids=["of an aggregate", "of a join"])
def test_should_refuse_windows_of_another_store(
    restoring: Restoring, log: FailingLog, standby: bool, key: bytes
) -> None:
    """The start of a join's window is the timestamp of the record, which is 0 here."""
    create(log, COUNTS.topic, cleanup_policy="compact,delete")
    write(log, COUNTS, [(b"k0", b"v0"), (key, b"v1")])
    task = restoring.add(COUNTS, compacted=True, standby=standby)
    with pytest.raises(ChangelogOfAnotherKind) as refused:
        restoring.update_standbys() if standby else restoring.restore()
    assert str(refused.value).startswith(
        "store counts is a key-value store, and its changelog app-counts-changelog-0 has records of another kind of "
        f"store (offsets 0 to 1, key {key!r})"
    )
    assert task.content() == {}


@pytest.mark.parametrize(
    "policy, compacted, applied",
    [("compact", True, None), ("compact,delete", False, None), ("compact,delete", True, 0)],
    ids=["its topic is compacted only", "its own config deletes by time", "it goes on from a checkpoint"],
)
def test_should_restore_keys_like_windows(
    restoring: Restoring, log: FailingLog, policy: str, compacted: bool, applied: int | None
) -> None:
    create(log, COUNTS.topic, cleanup_policy=policy)
    write(log, COUNTS, [(b"k0", b"v0"), (_A_WINDOW, b"v1")])
    task = restoring.add(COUNTS, compacted=compacted, applied=applied)
    restoring.restore_until_completed(COUNTS)
    assert task.content()[_A_WINDOW] == b"v1"


def test_should_read_no_needless_configs(
    restoring: Restoring, log: FailingLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Kafka, the configs of all topics are asked for."""
    create(log, COUNTS.topic, cleanup_policy="compact,delete")
    write(log, COUNTS, [*numbered(0, 10), (b"a longer key than a window's suffix", b"v")])
    monkeypatch.setattr(log, "topics", None)
    restoring.add(COUNTS, compacted=True)
    restoring.restore_until_completed(COUNTS)
