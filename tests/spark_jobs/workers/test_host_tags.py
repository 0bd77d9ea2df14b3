"""Instances on several hosts, as executors run them: no standby is on the host of its active copy."""

from pathlib import Path

import pytest

from spark_jobs.ownership.group_view import GroupView, wait_for_group
from spark_jobs.workers import member_process
from spark_jobs.workers.member_process import InstanceSettings
from streams_runtime.instance.application import group_body
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.spark_jobs.running_instance import EXECUTOR, TIMEOUT_S, RunningInstance, running
from tests.spark_jobs.small_application import TASKS, small_application

GROUP_ID = "spread"
HOSTS = ("here", "here", "here", "there")
"""By the number of the instance."""


def is_spread(view: GroupView) -> bool:
    """Whether every task has one active copy and one standby, on two hosts."""
    host = {member.member_id: HOSTS[int(member.client_id[-4])] for member in view.members}
    active = {task: host[member.member_id] for member in view.members for task in member.active}
    standby = {task: host[member.member_id] for member in view.members for task in member.standby}
    return active.keys() == standby.keys() == TASKS and all(active[task] != standby[task] for task in TASKS)


def test_should_place_each_standby_on_another_host_than_its_active_copy(
    coordinator: CoordinatorProcess,
    client: CoordinatorClient,
    log_directory: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    application = small_application(GROUP_ID, log_directory)
    client.declare(GROUP_ID, group_body(application))
    settings = InstanceSettings(application, coordinator.url, 1, str(tmp_path / "state"))
    instances = []
    for number, host in enumerate(HOSTS):
        monkeypatch.setattr(member_process, "host_tag", lambda host=host: host)
        instances.append(RunningInstance(settings, number))
        joined = f"{GROUP_ID}-p{number}-t0"
        wait_for_group(
            client,
            GROUP_ID,
            lambda view, joined=joined: any(member.client_id == joined for member in view.members),  # type: ignore[misc]
            joined,
            TIMEOUT_S,
        )
    wait_for_group(client, GROUP_ID, is_spread, "every standby on another host", TIMEOUT_S)
    client.drain(GROUP_ID)
    assert all(instance.wait().is_good for instance in instances)


def test_should_leave_the_tags_of_the_application_as_they_are(
    coordinator: CoordinatorProcess, client: CoordinatorClient, log_directory: Path, tmp_path: Path
) -> None:
    application = small_application(
        GROUP_ID, log_directory, client_tag_host="rack-1", rack_aware_assignment_tags="host"
    )
    client.declare(GROUP_ID, group_body(application))
    settings = InstanceSettings(application, coordinator.url, 1, str(tmp_path / "state"))
    with running(client, settings):
        wait_for_group(client, GROUP_ID, lambda view: bool(view.members), "a member", TIMEOUT_S)
        (member,) = client.describe(GROUP_ID)["members"]
    assert member["client_tags"] == {"host": "rack-1", "executor": EXECUTOR.executor_id}
