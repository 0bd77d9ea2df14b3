"""How an instance ends: closed, stopped, by an error, by another instance's error; and what it bears without."""

import inspect
import threading
import time
from pathlib import Path

import pytest

from streams_runtime import (
    GroupMembershipOperation,
    InstanceState,
    StreamsInstance,
    StreamsRuntimeError,
    ThreadErrorResponse,
    open_log,
)
from streams_runtime.configs import DEFAULT_SESSION_TIMEOUT_MS
from tests.streams_runtime.running_group import SOME_LINES, Group
from tests.streams_runtime.word_counting import LINES, TIMEOUT_S, SplitLine, create_topics, wait_for


def test_should_end_with_the_error_when_a_processor_fails_and_nobody_says_otherwise(group: Group) -> None:
    instance = group.start("a")
    assert instance.wait_until_running(TIMEOUT_S)
    group.write(["poison"])
    assert instance.wait(TIMEOUT_S) is InstanceState.ERROR
    (error,) = instance.errors
    assert isinstance(error, StreamsRuntimeError)
    assert "0_0" in str(error)
    assert LINES in str(error)
    assert instance.status().threads[0].state == "dead"

    (end,) = group.client.describe(group.id)["ends"]
    line = inspect.getsourcelines(SplitLine.process)[1] + 3
    assert end.pop("at_ms") > 0
    assert end.pop("client_id") in ("a-0", "a-1"), "that of the thread that left last"
    assert end == {
        "process_id": str(instance.process_id),
        "reason": "left",
        "error": "ValueError",
        "message": "a poisoned line; the record is lines-0 at offset 0",
        "place": f"word_counting.py:{line}, in process",
        "task": "0_0",
        "present": False,
    }


def test_should_end_every_instance_when_the_handler_says_shutdown_application(group: Group) -> None:
    first = group.start(
        "a", uncaught_exception_handler=lambda _error: ThreadErrorResponse.SHUTDOWN_APPLICATION, num_stream_threads=1
    )
    second = group.start(
        "b", uncaught_exception_handler=lambda _error: ThreadErrorResponse.SHUTDOWN_APPLICATION, num_stream_threads=1
    )
    group.wait_until_settled(first, second, standbys=2)
    group.write(["poison"])
    assert first.wait(TIMEOUT_S) is InstanceState.ERROR
    assert second.wait(TIMEOUT_S) is InstanceState.ERROR
    assert len(first.errors + second.errors) == 1, "one failed, the other was told"
    ends = group.client.describe(group.id)["ends"]
    assert sorted(end["message"] or "" for end in ends) == [
        *("", "a poisoned line; the record is lines-0 at offset 0"),
    ]


def test_should_wait_for_topics_that_the_leader_creates_a_moment_later(group: Group, tmp_path: Path) -> None:
    log = open_log(f"embedded:{tmp_path / 'late' / 'log'}")
    late = Group(f"late-{group.id}", tmp_path / "late", group.client, group.guarantee, log)
    late.declare(standbys=0)
    try:
        instance = late.start("a")
        wait_for(lambda: any(t.tasks for t in instance.status().threads), instance.status)
        create_topics(late.log, late.id)
        late.write(SOME_LINES)
        late.wait_until_counted()
        assert instance.errors == ()
    finally:
        for instance in late.instances:
            instance.close(TIMEOUT_S)
        late.log.close()


def test_should_fail_after_task_timeout_when_a_topic_never_comes(group: Group, tmp_path: Path) -> None:
    late = Group(f"never-{group.id}", tmp_path / "never", group.client, group.guarantee, group.log)
    late.declare(standbys=0)
    instance = late.start("a", num_stream_threads=1, task_timeout_ms=100)
    assert instance.wait(TIMEOUT_S) is InstanceState.ERROR
    assert "task.timeout.ms" in str(instance.errors[0])


@pytest.mark.parametrize("closers", [1, 3])
def test_should_end_once_when_closed_by_several_threads_at_any_moment(group: Group, closers: int) -> None:
    instance = group.start("a")
    threads = [threading.Thread(target=instance.close, args=(TIMEOUT_S,)) for _ in range(closers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert instance.state is InstanceState.NOT_RUNNING
    assert instance.errors == ()


def test_should_stop_everything_within_two_seconds_with_default_settings(group: Group) -> None:
    """Three instances of two threads: by its next heartbeat alone, a member would hear of it up to 3 s later."""
    group.write(SOME_LINES)
    instances = [
        group.start(name, session_timeout_ms=DEFAULT_SESSION_TIMEOUT_MS, heartbeat_interval_ms=None)
        for name in ("a", "b", "c")
    ]
    group.wait_until_settled(*instances, standbys=2)
    group.wait_until_counted()
    started_s = time.monotonic()
    group.client.drain(group.id)
    wait_for(lambda: group.client.describe(group.id)["members"] == [], lambda: [each.status() for each in instances])
    assert time.monotonic() - started_s < 2
    assert [each.wait(TIMEOUT_S) for each in instances] == [InstanceState.NOT_RUNNING] * 3


def test_should_end_without_a_word_when_closed_before_it_started(group: Group) -> None:
    instance = StreamsInstance(group.application(), group.client)
    assert instance.close()
    assert instance.state is InstanceState.NOT_RUNNING
    with pytest.raises(StreamsRuntimeError, match="not-running"):
        instance.start()


def test_should_have_its_tasks_again_without_a_rebalance_when_it_remained_in_the_group(group: Group) -> None:
    first = group.start("a", incarnation=1, leave_on_disconnect=False)
    assert first.wait_until_running(TIMEOUT_S)
    generation = group.client.describe(group.id)["generation_id"]
    assert first.close(TIMEOUT_S, GroupMembershipOperation.REMAIN_IN_GROUP)
    assert len(group.client.describe(group.id)["members"]) == 2

    second = group.start("a", incarnation=2, leave_on_disconnect=False)
    group.wait_until_settled(second, standbys=0)
    assert group.client.describe(group.id)["generation_id"] == generation


def test_should_refuse_to_remain_when_the_coordinator_would_remove_its_members(group: Group) -> None:
    instance = group.start("a")
    with pytest.raises(StreamsRuntimeError, match=r"leave\.on\.disconnect=false"):
        instance.close(TIMEOUT_S, GroupMembershipOperation.REMAIN_IN_GROUP)
    assert instance.wait_until_running(TIMEOUT_S)


def test_should_delete_its_state_before_start_and_after_close_and_restore_it_then(group: Group) -> None:
    instance = group.start("a")
    group.write(SOME_LINES)
    group.wait_until_counted()
    with pytest.raises(StreamsRuntimeError, match="an instance that runs cannot be deleted; it is running"):
        instance.clean_up()
    assert instance.close(TIMEOUT_S)
    state = group.directory / "a" / group.id
    assert list(state.glob("*/rocksdb/*")), "the stores are in RocksDB"
    instance.clean_up()
    assert not list(state.glob("*/rocksdb/*"))
    again = group.prepared("a")
    again.clean_up()
    again.start()
    group.write(SOME_LINES)
    group.wait_until_counted()
