"""A coordinator as a process: what it says when it cannot start, and that it comes back where it was."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from streams_runtime.local_run.coordinator_process import CoordinatorNotStarted, CoordinatorProcess
from tests.warm_coordinator import WarmCoordinator


def test_should_say_why_when_it_cannot_start(tmp_path: Path) -> None:
    process = WarmCoordinator(tmp_path, {"group.max.size": "many"})
    with pytest.raises(CoordinatorNotStarted, match=r"group\.max\.size"):
        process.start()
    process.stop()


def test_should_come_back_on_the_same_port_with_the_same_database_and_stop_for_good(tmp_path: Path) -> None:
    process = CoordinatorProcess(tmp_path)
    with process:
        url = process.url
        process.kill()
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/livez", trust_env=False)
        process.start()
        assert process.url == url
        assert httpx.get(f"{url}/livez", trust_env=False).is_success
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/livez", trust_env=False)
