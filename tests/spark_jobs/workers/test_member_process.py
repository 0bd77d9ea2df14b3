"""One instance with real parts: how it joins, where it keeps its state, and how it ends."""

import os
import signal
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.ownership.group_status import GroupWatch
from spark_jobs.ownership.group_view import GroupView, wait_for_group
from spark_jobs.ownership.ownership_log import read_ownership
from spark_jobs.workers import member_process
from spark_jobs.workers.member_process import InstanceResult, InstanceSettings, run_instance
from streams_runtime.common.errors import LockError
from streams_runtime.common.states import InstanceState
from streams_runtime.instance.application import group_body
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.tasks.file_system import DirectoryLock
from tests.known import known
from tests.spark_jobs.main_thread import once_inside
from tests.spark_jobs.running_instance import EXECUTOR, TIMEOUT_S, RunningInstance, running
from tests.spark_jobs.small_application import POISON, TASKS, counted, small_application, write_records

CLEAN = InstanceResult(0, InstanceState.NOT_RUNNING)


@pytest.fixture
def settings(
    coordinator: CoordinatorProcess, client: CoordinatorClient, log_directory: Path, tmp_path: Path
) -> InstanceSettings:
    application = small_application(f"instance-{log_directory.name}", log_directory)
    client.declare(application.id, group_body(application))
    return InstanceSettings(application, coordinator.url, threads=1, state_dir=str(tmp_path / "state"))


def with_configs(settings: InstanceSettings, **configs: Any) -> InstanceSettings:
    application = settings.application
    return replace(settings, application=replace(application, configs=replace(application.configs, **configs)))


def wait_until_owner(client: CoordinatorClient, group_id: str, threads: int = 1) -> GroupView:
    """Until `threads` members own everything, and nothing is left to do."""

    def wanted(view: GroupView) -> bool:
        return view.is_settled and len(view.members) == threads and view.owners().keys() == TASKS

    return wait_for_group(client, group_id, wanted, "the instance to own everything", TIMEOUT_S)


def test_should_join_as_static_members_and_serve_and_end_cleanly_when_drained(
    client: CoordinatorClient, settings: InstanceSettings
) -> None:
    group_id = settings.application.id
    instance = RunningInstance(replace(settings, threads=2), incarnation=5)
    view = wait_until_owner(client, group_id, threads=2)
    members = sorted(view.members, key=lambda member: member.client_id)
    assert [member.client_id for member in members] == [f"{group_id}-p0-t0", f"{group_id}-p0-t1"]
    described = client.describe(group_id)["members"]
    assert isinstance(described, list)
    assert {(one["group_instance_id"], one["incarnation"]) for one in described} == {
        (member.client_id, 5) for member in members
    }
    (endpoint,) = {member.user_endpoint for member in members}
    assert known(endpoint).startswith("127.0.0.1:")
    with GroupWatch(client, group_id) as watch:
        seen = watch.poll()
    assert [(row.instance, row.thread) for row in seen.threads] == [(endpoint, one.client_id) for one in members]
    assert {copy.task for row in seen.threads for copy in row.copies} == TASKS
    client.drain(group_id)
    assert instance.wait() == CLEAN
    with GroupWatch(client, group_id) as watch:
        ended = watch.poll()
    assert (ended.view.state, ended.view.generation_id) == ("Empty", seen.view.generation_id + 1)
    assert ended.threads == ()


def test_should_serve_its_stores_to_others_only_with_a_token(
    client: CoordinatorClient, coordinator: CoordinatorProcess, settings: InstanceSettings
) -> None:
    with (
        running(client, replace(settings, token="a-token")),
        CoordinatorClient(coordinator.url, token="a-token") as knowing,
    ):
        view = wait_until_owner(client, settings.application.id)
        (endpoint,) = {member.user_endpoint for member in view.members}
        with (
            GroupWatch(knowing, settings.application.id) as watch,
            GroupWatch(client, settings.application.id) as blind,
        ):
            states = [[row.state for row in one.poll().threads] for one in (watch, blind)]

    assert known(endpoint).startswith(f"{EXECUTOR.host}:")
    assert [[one == "no answer" for one in row] for row in states] == [[False], [True]]


def test_should_name_what_failed_when_the_users_code_does(
    client: CoordinatorClient, settings: InstanceSettings, log_directory: Path
) -> None:
    write_records(log_directory, 1, value=POISON)
    end = RunningInstance(settings).wait()
    assert (end.partition, end.state, end.is_good) == (0, InstanceState.ERROR, False)
    (error,) = end.errors
    for named in ("ProcessingFailed", "ValueError: a poisoned record", "partition=", "offset=0"):
        assert named in error
    assert error in str(end)
    wait_for_group(client, settings.application.id, lambda view: not view.members, "it to have left", TIMEOUT_S)


def test_should_name_what_refused_it_when_the_group_does(settings: InstanceSettings) -> None:
    end = RunningInstance(with_configs(settings, session_timeout_ms=100)).wait()
    assert end.state is InstanceState.ERROR
    assert "INVALID_SESSION_TIMEOUT" in end.errors[0]


def held_state(settings: InstanceSettings) -> DirectoryLock:
    """The lock of another process on the state of the first instance."""
    directory = Path(known(settings.state_dir)) / "instance-0" / settings.application.id
    directory.mkdir(parents=True)
    return DirectoryLock.acquire(directory, "the state of the test")


class Ended(BaseException):
    """In place of the end of the process."""


def end(exit_code: int = 0) -> None:
    raise Ended(exit_code)


def test_should_be_tried_again_when_another_process_keeps_its_state(
    settings: InstanceSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_process, "LOCK_WAIT_MS", 0)
    lock = held_state(settings)
    with pytest.raises(LockError, match="is in use by"):
        RunningInstance(settings).wait()
    lock.release()


def test_should_end_at_once_when_told_to_leave_while_it_waits_for_the_process_before_it(
    settings: InstanceSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_process, "end_process", end)
    lock = held_state(settings)
    with (
        once_inside(DirectoryLock.acquire.__func__, lambda: os.kill(os.getpid(), signal.SIGHUP)),  # type: ignore[attr-defined]
        pytest.raises(Ended),
    ):
        run_instance(settings, 0, 0, EXECUTOR)
    lock.release()


def test_should_end_with_an_error_when_it_does_not_leave_in_time(
    client: CoordinatorClient, settings: InstanceSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tell_to_leave() -> None:
        wait_until_owner(client, settings.application.id)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(member_process, "end_process", end)
    monkeypatch.setattr(member_process, "DRAIN_TIMEOUT_S", 0.0)
    telling = threading.Thread(target=tell_to_leave)
    telling.start()
    with pytest.raises(Ended, match="1"):
        run_instance(settings, 0, 0, EXECUTOR)
    telling.join()


def test_should_find_its_state_again_below_the_directory_for_temporary_files(
    client: CoordinatorClient,
    settings: InstanceSettings,
    log_directory: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    relative = replace(settings, state_dir="my-state", log_dir="my-log")
    group_id = settings.application.id
    write_records(log_directory, 3)
    with running(client, relative):
        before = wait_until_owner(client, group_id)
        wait_for_group(
            client, group_id, lambda view: sum(counted(log_directory, group_id).values()) == 3 * 24, "work", TIMEOUT_S
        )
    assert (tmp_path / "my-state" / "instance-0" / group_id / "0_0" / "rocksdb").is_dir()
    client.declare(group_id, group_body(settings.application))  # ends the drain
    with running(client, relative):
        after = wait_until_owner(client, group_id)
    assert {one.process_id for one in after.members} == {one.process_id for one in before.members}
    lines = read_ownership(tmp_path / "my-log")
    assert {line.executor for line in lines} == {EXECUTOR.executor_id}
    restored = [(line.origin, line.records) for line in lines if line.event == "restored"]
    assert restored == [("beginning", 0)] * len(TASKS) + [("checkpoint", 0)] * len(TASKS)
