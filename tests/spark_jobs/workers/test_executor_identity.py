"""Which executor a Python worker belongs to, by the command lines of its ancestors."""

import subprocess
import sys

from spark_jobs.ownership.executor_identity import ExecutorIdentity, executor_identity

_TELL = (
    "from spark_jobs.ownership.executor_identity import executor_identity; "
    "i = executor_identity(); print(i.executor_id, i.jvm_pid, i.host)"
)
_PARENT = (
    "import os, subprocess, sys; print(os.getpid(), flush=True); subprocess.run([sys.executable, '-c', sys.argv[1]])"
)


def test_should_read_executor_and_host_from_the_command_line_of_the_jvm() -> None:
    command = [sys.executable, "-c", _PARENT, _TELL, "--executor-id", "7", "--hostname", "worker-9"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert said == [said[0], "7", said[0], "worker-9"]


def test_should_belong_to_no_executor_outside_of_spark() -> None:
    assert executor_identity() == ExecutorIdentity("driver", None, "127.0.0.1")
