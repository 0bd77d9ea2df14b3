"""A coordinator as a process: what it says when it cannot start, and that it comes back where it was."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from streams_runtime.local_run.coordinator_process import CoordinatorNotStarted, CoordinatorProcess
from tests.known import known
from tests.waiting import wait_until
from tests.warm_coordinator import WarmCoordinator


def test_should_say_why_when_it_cannot_start(tmp_path: Path) -> None:
    process = WarmCoordinator(tmp_path, {"group.max.size": "many"})
    with pytest.raises(CoordinatorNotStarted, match=r"group\.max\.size"):
        process.start()
    process.stop()


def test_should_advise_when_the_system_refuses_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(subprocess, "Popen", refused)
    with pytest.raises(
        CoordinatorNotStarted, match=r"could not be started: .*raise this process's limit of open files"
    ):
        CoordinatorProcess(tmp_path / "coordinator", {}).start()


def test_should_come_back_on_the_same_port_with_the_same_database_and_stop_for_good(tmp_path: Path) -> None:
    with WarmCoordinator(tmp_path) as process:
        url = process.url
        process.kill()
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/livez", trust_env=False)
        process.start()
        assert process.url == url
        assert httpx.get(f"{url}/livez", trust_env=False).is_success
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/livez", trust_env=False)


_STARTS_ONE = """
import sys
from pathlib import Path
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
process = CoordinatorProcess(Path(sys.argv[1]))
process.start()
print(process.url, flush=True)
sys.stdin.read()
"""


@pytest.mark.long
def test_should_end_with_the_process_that_started_it_also_when_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _STARTS_ONE, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        url = known(parent.stdout).readline().strip()
        assert httpx.get(f"{url}/livez", trust_env=False).is_success
        parent.kill()
    wait_until(lambda: not answers(url), "its end")


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/livez", trust_env=False).is_success
    except httpx.TransportError:
        return False
