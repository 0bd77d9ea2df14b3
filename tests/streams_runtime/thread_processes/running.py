"""Instances whose stream threads are processes; run as a program it is one in a process of its own, to be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from streams_runtime.application import Application
from streams_runtime.common.states import TaskType
from streams_runtime.instance.instance_resources import InstanceOptions
from streams_runtime.instance.streams_instance import StreamsInstance
from streams_runtime.thread_processes.thread_process import ThreadProcessFailed
from tests.streams_runtime.word_counting import TIMEOUT_S, counting_application, wait_for

AS_PROCESSES: dict[str, Any] = {"stream_threads_run_as": "processes"}


def pids(instance: StreamsInstance) -> list[int]:
    """Of the processes of its threads, as far as they have been started."""
    return [thread.pid for thread in instance.status().threads if thread.pid is not None]


def active_tasks(instance: StreamsInstance) -> int:
    return sum(task.role is TaskType.ACTIVE for thread in instance.status().threads for task in thread.tasks)


def kill_one(instance: StreamsInstance) -> int:
    """The process of the first thread; its id."""
    pid = pids(instance)[0]
    os.kill(pid, signal.SIGKILL)
    return pid


def says_who_was_killed(error: Exception, pid: int) -> bool:
    return isinstance(error, ThreadProcessFailed) and f"(pid {pid}) was ended by SIGKILL" in str(error)


def is_there(pid: int) -> bool:
    """Whether it has not ended; one that nobody has waited for yet has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_gone(gone: list[int]) -> None:
    wait_for(lambda: not any(is_there(pid) for pid in gone), lambda: [pid for pid in gone if is_there(pid)])


class KilledInstance:
    """An instance in another process. `pids`: those of its threads, which are running."""

    def __init__(self, application_id: str, log: Path, state_dir: Path, coordinator_url: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, application_id, str(log), str(state_dir), coordinator_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.pids = [int(word) for word in self._process.stdout.readline().split()]

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=TIMEOUT_S)


def processes_application(application_id: str, log: Path, state_dir: Path, **more: Any) -> Application:
    return counting_application(application_id, log, state_dir, guarantee="exactly_once_v2", **AS_PROCESSES, **more)


def main() -> None:
    application_id, log, state_dir, coordinator_url = sys.argv[1:]
    instance = StreamsInstance(
        processes_application(application_id, Path(log), Path(state_dir)),
        coordinator_url,
        InstanceOptions(thread_name=lambda index: f"a-{index}"),
    )
    instance.start()
    assert instance.wait_until_running(TIMEOUT_S)
    print(*pids(instance), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
