"""What happens before instances start: a coordinator that is not up yet, and instances that run already."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from assignor.errors import InputError
from spark_jobs.workers import declaring
from spark_jobs.workers.declaring import declare
from spark_jobs.workers.member_process import InstanceSettings
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.membership.calls import CoordinatorUnavailable
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.spark_jobs.log_directories import LogDirectories
from tests.spark_jobs.running_instance import RunningInstance
from tests.spark_jobs.small_application import small_application
from tests.waiting import wait_until
from tests.warm_coordinator import WarmCoordinator

NOBODY = "http://127.0.0.1:1"


class Lines(list[str]):
    """The reported lines. `at`: called with each."""

    def __init__(self, at: Callable[[str], None] = lambda _line: None) -> None:
        super().__init__()
        self._at = at

    def __call__(self, line: str) -> None:
        self.append(line)
        self._at(line)


def settings_of(group_id: str, log_directory: Path, url: str) -> InstanceSettings:
    return InstanceSettings(small_application(group_id, log_directory), url)


def test_should_say_what_to_do_when_no_coordinator_answers(log_directory: Path) -> None:
    lines = Lines()
    with (
        CoordinatorClient(NOBODY) as client,
        pytest.raises(
            CoordinatorUnavailable, match=rf"no coordinator answers at {NOBODY} \(.*refused.*`assignor serve`"
        ),
    ):
        declare(settings_of("nobody", log_directory, NOBODY), client, instances=1, report=lines)
    assert lines == []


def test_should_end_after_the_time_that_it_states(log_directory: Path) -> None:
    lines = Lines()
    with CoordinatorClient(NOBODY) as client, pytest.raises(CoordinatorUnavailable, match="no coordinator answers"):
        declare(settings_of("nobody", log_directory, NOBODY), client, instances=1, report=lines, wait_s=0.2)
    (line,) = lines
    assert line.startswith(f"waiting for the coordinator at {NOBODY}, for 0.2 s at most (")


@pytest.mark.long
def test_should_go_on_once_the_coordinator_is_up(
    log_directories: LogDirectories, log_directory: Path, tmp_path: Path
) -> None:
    with WarmCoordinator(tmp_path, log_directories.setting) as coordinator:
        coordinator.kill()
        lines = Lines(lambda line: coordinator.start() if line.startswith("waiting") else None)
        with CoordinatorClient(coordinator.url) as client:
            declare(settings_of("late", log_directory, coordinator.url), client, instances=1, report=lines, wait_s=60)
    assert [line.partition(",")[0] for line in lines] == [
        f"waiting for the coordinator at {coordinator.url}",
        f"the coordinator at {coordinator.url} answers",
    ]


@pytest.fixture
def running(
    coordinator: CoordinatorProcess, client: CoordinatorClient, log_directory: Path, tmp_path: Path
) -> InstanceSettings:
    settings = InstanceSettings(
        small_application("twice", log_directory), coordinator.url, 1, str(tmp_path / "state"), None
    )
    declare(settings, client, instances=1, report=Lines())
    return settings


@contextmanager
def joined(client: CoordinatorClient, settings: InstanceSettings, partition: int = 0) -> Iterator[None]:
    """An instance that is a member of the group `twice`, which is drained in the end."""
    instance = RunningInstance(settings, partition=partition)
    wait_until(lambda: re.search(r"'fetched': True", str(client.describe("twice")["members"])), "the member")
    yield
    client.drain("twice")
    instance.wait()


def test_should_refuse_instances_that_are_alive(
    running: InstanceSettings, client: CoordinatorClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(declaring, "ALIVE_MS", 500)
    lines = Lines()
    with (
        joined(client, running),
        pytest.raises(
            InputError, match=r"^twice: its instances run already, started by another program \(twice-p0-t0\)"
        ),
    ):
        declare(running, client, instances=1, report=lines)
    assert lines == ["the group has twice-p0-t0 already: waiting until it leaves"]


def test_should_wait_for_instances_that_are_about_to_leave(
    running: InstanceSettings, client: CoordinatorClient
) -> None:
    lines = Lines(lambda _line: client.drain("twice"))
    with joined(client, running):
        declare(running, client, instances=1, report=lines)
    assert len(lines) == 1


def test_should_leave_instances_of_other_numbers_alone(running: InstanceSettings, client: CoordinatorClient) -> None:
    lines = Lines()
    with joined(client, running, partition=1):
        declare(running, client, instances=1, report=lines)
    assert lines == []


def test_should_leave_instances_of_other_hosts_alone(running: InstanceSettings, client: CoordinatorClient) -> None:
    lines = Lines()
    with joined(client, replace(running, host="there")):
        declare(replace(running, host="here"), client, instances=1, report=lines)
        assert lines == []
        with pytest.raises(Waiting, match="the group has twice-there-p0-t0 already: waiting until it leaves"):
            declare(replace(running, host="there"), client, instances=1, report=Lines(stop_waiting))


class Waiting(Exception):
    """It has begun to wait."""


def stop_waiting(line: str) -> None:
    raise Waiting(line)
