"""What follows when the process of a stream thread fails or is killed, or that of its instance."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_runtime.application import ThreadErrorResponse
from streams_runtime.common.errors import ProcessingFailed
from streams_runtime.common.states import InstanceState
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.streams_runtime.running_group import EXACTLY_ONCE, SOME_LINES, Group, running_group
from tests.streams_runtime.thread_processes.running import (
    AS_PROCESSES,
    KilledInstance,
    active_tasks,
    kill_one,
    pids,
    says_who_was_killed,
    wait_until_gone,
)
from tests.streams_runtime.word_counting import TIMEOUT_S, TOTALS, RememberingListener, read_all, totals, wait_for


@pytest.fixture
def group(request: pytest.FixtureRequest, client: CoordinatorClient, tmp_path: Path) -> Iterator[Group]:
    with running_group(request.node.name, EXACTLY_ONCE, client, tmp_path) as made:
        made.declare(standbys=0)
        yield made


def test_should_count_each_record_once_when_a_process_is_killed_at_work_and_replaced(group: Group) -> None:
    def replace(error: Exception) -> ThreadErrorResponse:
        asked.append((os.getpid(), threading.current_thread().name, error))
        return ThreadErrorResponse.REPLACE_THREAD

    asked: list[tuple[int, str, Exception]] = []
    told = RememberingListener()
    instance = group.start(listener=told, uncaught_exception_handler=replace, **AS_PROCESSES)
    assert instance.wait_until_running(TIMEOUT_S)
    group.write(SOME_LINES * 20)
    wait_for(lambda: len(totals(group.log)) > 0, instance.status)  # it is at work
    killed = kill_one(instance)
    group.wait_until_counted()

    ((process, name, error),) = asked
    assert (process, name) == (os.getpid(), "a-0")
    assert instance.errors == (error,)
    assert says_who_was_killed(error, killed)
    assert told.drops == [(f"failed: {error}", False)]
    group.wait_until_settled(instance, standbys=0)
    assert killed not in pids(instance)
    written = read_all(group.log, TOTALS)
    assert len(written) == len(set(written)) == sum(group.words.values()), "nothing was written twice"
    assert instance.close(TIMEOUT_S)
    assert instance.state is InstanceState.NOT_RUNNING


@pytest.mark.parametrize("how", ["killed", "raised"])
def test_should_end_with_the_error_when_nobody_says_otherwise(group: Group, how: str) -> None:
    # another one would fail on the same record, if it got it before the instance ends
    instance = group.start(num_stream_threads=2 if how == "killed" else 1, **AS_PROCESSES)
    assert instance.wait_until_running(TIMEOUT_S)
    before = pids(instance)
    if how == "killed":
        killed = kill_one(instance)
    else:
        group.write(["poison"])
    assert instance.wait(TIMEOUT_S) is InstanceState.ERROR
    (error,) = instance.errors
    if how == "killed":
        assert says_who_was_killed(error, killed)
        group.write(SOME_LINES)
        group.start("b")
        group.wait_until_counted()
    else:
        assert isinstance(error, ProcessingFailed)
        assert isinstance(error.__cause__, ValueError)
        assert str(error.__cause__) == "a poisoned line"
        assert any("in process" in note for note in error.__notes__)
    wait_until_gone(before)
    assert all(thread.tasks == () for thread in instance.status().threads)
    assert b"streams_tasks{" not in instance.metrics.exposition()


@pytest.mark.parametrize("how", ["killed", "raised"])
def test_should_end_every_instance_when_the_handler_says_shutdown_application(group: Group, how: str) -> None:
    def shut_down(_error: Exception) -> ThreadErrorResponse:
        return ThreadErrorResponse.SHUTDOWN_APPLICATION

    first = group.start("a", uncaught_exception_handler=shut_down, num_stream_threads=1, **AS_PROCESSES)
    second = group.start("b", uncaught_exception_handler=shut_down, num_stream_threads=1, **AS_PROCESSES)
    wait_for(lambda: all(active_tasks(each) for each in (first, second)), lambda: (first.status(), second.status()))
    group.wait_until_settled(first, second, standbys=0)
    if how == "killed":
        kill_one(first)
    else:
        group.write(["poison"])
    assert first.wait(TIMEOUT_S) is InstanceState.ERROR
    assert second.wait(TIMEOUT_S) is InstanceState.ERROR
    assert len(first.errors + second.errors) == 1, "one failed, the other was told"


def test_should_say_why_a_process_cannot_load_the_application(
    group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "found_no_more.py").write_text("def handler(record):\n    return record\n")
    with monkeypatch.context() as patched:
        patched.syspath_prepend(str(tmp_path))
        import found_no_more  # type: ignore[import-not-found]
    monkeypatch.setitem(sys.modules, "found_no_more", sys.modules.pop("found_no_more"))  # it goes with the test

    instance = group.start(processing_exception_handler=found_no_more.handler, num_stream_threads=1, **AS_PROCESSES)
    assert instance.wait(TIMEOUT_S) is InstanceState.ERROR
    (error,) = instance.errors
    assert "the application cannot be made again in another process: ModuleNotFoundError" in str(error)
    assert "found_no_more" in str(error)


def test_should_die_with_its_instance_and_leave_its_state_to_the_next_one(
    group: Group, client: CoordinatorClient
) -> None:
    group.write(SOME_LINES * 10)
    first = KilledInstance(group.id, group.directory / "log", group.directory / "a", str(client.addresses))
    wait_for(lambda: len(totals(group.log)) > 0, lambda: first.pids)  # it is at work
    first.kill()
    wait_until_gone(first.pids)

    second = group.start("a", **AS_PROCESSES)  # the directory is free
    group.write(SOME_LINES)
    group.wait_until_counted()
    assert second.errors == ()
    written = read_all(group.log, TOTALS)
    assert len(written) == len(set(written)) == sum(group.words.values()), "nothing was written twice"
