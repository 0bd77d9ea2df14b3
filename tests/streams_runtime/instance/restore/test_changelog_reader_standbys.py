"""Standbys: when they are read, up to where, and how far behind they are."""

import pytest

from assignor.errors import IllegalStateError
from assignor.types import TopicPartition
from streams_runtime.common.errors import TaskTimeout
from streams_runtime.logs.log_errors import LogTimeout
from tests.streams_runtime.instance.restore.conftest import StartReader
from tests.streams_runtime.instance.restore.failing_log import FailingLog
from tests.streams_runtime.instance.restore.restoring import APPLICATION, Restoring, contents, create, numbered, write
from tests.streams_runtime.logs.reading_and_writing import commit

ACTIVE = TopicPartition("active-changelog", 0)
STANDBY = TopicPartition("standby-changelog", 0)
USERS = TopicPartition("users", 0)
COMMIT_INTERVAL_MS = 1_000
LAG_INTERVAL_MS = 1_000


@pytest.fixture
def topics(log: FailingLog) -> None:
    for partition in (ACTIVE, STANDBY, USERS):
        create(log, partition.topic)
        write(log, partition, numbered(0, 10))


@pytest.mark.usefixtures("topics")
def test_should_update_standbys_only_when_no_active_task_restores(start: StartReader) -> None:
    restoring = start(restore_batch_records=4)
    active, standby = restoring.add(ACTIVE), restoring.add(STANDBY, standby=True)
    for _ in range(2):
        restoring.restore(others_run=True)
        assert restoring.consumer.paused() == {STANDBY}
        with pytest.raises(IllegalStateError, match="active-changelog-0 of active tasks are not restored yet"):
            restoring.reader.transit_to_update_standby()
    restoring.restore_until_completed(ACTIVE)
    assert (active.content(), standby.content()) == (contents(0, 10), {})

    restoring.update_standbys()
    assert standby.content() == contents(0, 10)
    assert restoring.consumer.paused() == {ACTIVE}


@pytest.mark.usefixtures("topics")
def test_should_stop_updating_standbys_when_an_active_task_comes(start: StartReader, log: FailingLog) -> None:
    restoring = start()
    standby = restoring.add(STANDBY, standby=True)
    restoring.update_standbys()
    restoring.add(ACTIVE)
    assert not restoring.reader.updates_standbys
    assert restoring.consumer.paused() == {STANDBY}
    write(log, STANDBY, numbered(10, 20))
    restoring.restore_until_completed(ACTIVE)
    assert standby.content() == contents(0, 10)
    restoring.update_standbys()
    assert standby.content() == contents(0, 20)


@pytest.mark.usefixtures("topics")
def test_should_pause_standbys_when_asked_to_restore_active_tasks(restoring: Restoring) -> None:
    restoring.add(STANDBY, standby=True)
    restoring.update_standbys()
    assert restoring.consumer.paused() == frozenset()
    restoring.reader.enforce_restore_active()
    restoring.reader.enforce_restore_active()
    assert restoring.consumer.paused() == {STANDBY}


@pytest.mark.usefixtures("topics")
def test_should_start_a_standby_from_its_checkpoint_else_from_its_start(restoring: Restoring, log: FailingLog) -> None:
    log.delete_records({ACTIVE: 2})
    with_checkpoint = restoring.add(STANDBY, standby=True, applied=5)
    without = restoring.add(ACTIVE, standby=True)
    restoring.update_standbys()
    assert (with_checkpoint.content(), without.content()) == (contents(6, 10), contents(2, 10))


@pytest.mark.usefixtures("topics")
def test_should_never_complete_a_standby_and_tell_no_listener_of_it(restoring: Restoring, log: FailingLog) -> None:
    standby = restoring.add(STANDBY, standby=True)
    restoring.update_standbys()
    write(log, STANDBY, numbered(10, 15))
    restoring.update_standbys()
    assert standby.content() == contents(0, 15)
    assert restoring.reader.completed_changelogs() == set()
    assert restoring.reader.restored_records(STANDBY) == 15
    restoring.reader.unregister([STANDBY])
    assert restoring.listener.told == []


@pytest.mark.usefixtures("topics")
def test_should_count_as_caught_up_when_the_changelog_was_emptied(restoring: Restoring, log: FailingLog) -> None:
    log.delete_records({STANDBY: 10})
    standby = restoring.add(STANDBY, standby=True)
    restoring.update_standbys()
    assert standby.state.changelog_offsets() == {STANDBY: 10}
    assert restoring.reader.lags() == {STANDBY: 0}
    standby.state.maybe_checkpoint(enforce=True)
    write(log, STANDBY, numbered(10, 12))
    restoring.reader.unregister([STANDBY])
    again = restoring.add(STANDBY, standby=True, applied=standby.state.metadata(STANDBY).offset)
    restoring.update_standbys()
    assert again.content() == contents(10, 12)


def test_should_count_what_left_no_record_as_read(start: StartReader, log: FailingLog) -> None:
    """A record of a source topic that has no key, and waits for the limit."""
    create(log, USERS.topic)
    write(log, USERS, [(b"k", b"v")])
    producer = log.producer()
    producer.send(USERS, None, b"no key", 0)
    producer.flush()
    producer.close()
    commit(log, APPLICATION, {USERS: 1})
    restoring = start()
    source = restoring.add(USERS, standby=True, source=True)
    restoring.update_standbys()
    assert source.state.changelog_offsets() == {USERS: 1}, "the record without a key waits for the limit"
    commit(log, APPLICATION, {USERS: 2})
    restoring.clock.advance(COMMIT_INTERVAL_MS)
    restoring.update_standbys()
    assert source.state.changelog_offsets() == {USERS: 2}


@pytest.mark.usefixtures("topics")
def test_should_keep_records_past_the_limit_and_pause_until_it_moves(restoring: Restoring, log: FailingLog) -> None:
    commit(log, APPLICATION, {USERS: 4})
    standby = restoring.add(USERS, standby=True, source=True)
    restoring.update_standbys()
    assert standby.content() == contents(0, 4)
    assert restoring.consumer.paused() == {USERS}
    assert restoring.reader.positions() == {USERS: 4}

    commit(log, APPLICATION, {USERS: 7})
    write(log, USERS, numbered(10, 12))
    restoring.clock.advance(COMMIT_INTERVAL_MS - 1)
    restoring.update_standbys()
    assert standby.content() == contents(0, 4), "the limit is looked up once in a commit interval"

    restoring.clock.advance(1)
    restoring.update_standbys()
    assert standby.content() == contents(0, 7)
    assert restoring.consumer.paused() == {USERS}, "records 7 to 9 still wait"

    commit(log, APPLICATION, {USERS: 12})
    restoring.clock.advance(COMMIT_INTERVAL_MS)
    restoring.update_standbys()
    assert standby.content() == contents(0, 12)
    assert restoring.consumer.paused() == frozenset()


@pytest.mark.usefixtures("topics")
def test_should_apply_nothing_of_a_source_topic_before_the_first_commit(restoring: Restoring, log: FailingLog) -> None:
    standby = restoring.add(USERS, standby=True, source=True)
    restoring.update_standbys()
    assert (standby.content(), restoring.reader.positions()) == ({}, {USERS: 0})
    commit(log, APPLICATION, {USERS: 3})
    restoring.clock.advance(COMMIT_INTERVAL_MS)
    restoring.update_standbys()
    assert standby.content() == contents(0, 3)


@pytest.mark.usefixtures("topics")
def test_should_take_no_limit_back(restoring: Restoring, log: FailingLog) -> None:
    commit(log, APPLICATION, {USERS: 6})
    standby = restoring.add(USERS, standby=True, source=True)
    restoring.update_standbys()
    commit(log, APPLICATION, {USERS: 2})
    restoring.clock.advance(COMMIT_INTERVAL_MS)
    restoring.update_standbys()
    assert standby.content() == contents(0, 6)


@pytest.mark.usefixtures("topics")
def test_should_wait_for_the_log_when_a_limit_cannot_be_looked_up(start: StartReader, log: FailingLog) -> None:
    restoring = start(task_timeout_ms=5_000)
    standby = restoring.add(USERS, standby=True, source=True)
    restoring.update_standbys()
    log.fail["committed_offsets"] = LogTimeout("busy")
    for _ in range(2):
        restoring.clock.advance(2_500)
        restoring.update_standbys()
    restoring.clock.advance(2_501)
    with pytest.raises(TaskTimeout, match=r"0_0.*committed offsets.*busy") as raised:
        restoring.update_standbys()
    assert raised.value.task_id == standby.id


@pytest.mark.usefixtures("topics")
def test_should_show_the_lag_of_every_store_of_a_standby(restoring: Restoring, log: FailingLog) -> None:
    commit(log, APPLICATION, {USERS: 4})
    restoring.add(STANDBY, standby=True)
    restoring.add(USERS, standby=True, source=True)
    restoring.add(ACTIVE)
    restoring.restore_until_completed(ACTIVE)
    assert restoring.reader.lags() == {STANDBY: 10, USERS: 10}, "visible while active tasks go first"

    restoring.update_standbys()
    assert restoring.reader.lags() == {STANDBY: 0, USERS: 6}

    restoring.add(TopicPartition("missing-changelog", 0))  # from here on standbys are not read any more
    write(log, STANDBY, numbered(10, 15))
    restoring.restore()
    assert restoring.reader.lags() == {STANDBY: 0, USERS: 6}
    restoring.clock.advance(LAG_INTERVAL_MS)
    restoring.restore()
    assert restoring.reader.lags() == {STANDBY: 5, USERS: 6}


@pytest.mark.usefixtures("topics")
def test_should_keep_the_last_lag_when_the_log_does_not_answer(restoring: Restoring, log: FailingLog) -> None:
    restoring.add(STANDBY, standby=True, applied=3)
    restoring.restore()
    log.fail["end_offsets"] = LogTimeout("busy")
    restoring.clock.advance(LAG_INTERVAL_MS)
    restoring.restore()
    assert restoring.reader.lags() == {STANDBY: 6}


@pytest.mark.usefixtures("topics")
def test_should_leave_standbys_alone_that_are_left_out(restoring: Restoring) -> None:
    one, other = restoring.add(STANDBY, standby=True), restoring.add(ACTIVE, standby=True)
    restoring.reader.transit_to_update_standby()
    restoring.restore()
    restoring.restore(only=[one])
    assert restoring.consumer.paused() == {ACTIVE}
    assert (one.content(), other.content()) == (contents(0, 10), contents(0, 10))
