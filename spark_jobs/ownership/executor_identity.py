"""Finds the Spark executor that started this Python process. Spark offers no interface by which a worker can get the id
of its executor. The parent process of a worker is pyspark's daemon. The parent process of the daemon is the executor's
JVM. The command line of this JVM has the executor's id. In local mode the driver is the executor.
"""

import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path

DRIVER = "driver"
LOOPBACK = "127.0.0.1"
_EXECUTOR_ID = re.compile(r"--executor-id[\s\0]+([^\s\0]+)")
_HOST = re.compile(r"--hostname[\s\0]+([^\s\0]+)")
_GENERATIONS = 4


@dataclass(frozen=True, slots=True)
class ExecutorIdentity:
    """The Spark executor of a process. `executor_id`: Spark's number of the executor, or `driver` in local mode; empty
    for a process outside of Spark. `jvm_pid`: the process id of the executor's JVM; None if there is no such JVM, or if
    the JVM cannot be found.

    `host`: the name under which other machines reach this machine; loopback in Spark's local mode.
    """

    executor_id: str
    jvm_pid: int | None
    host: str = LOOPBACK


def executor_identity() -> ExecutorIdentity:
    """Finds the executor among the ancestors of this process."""
    pid = os.getpid()
    for _ in range(_GENERATIONS):
        try:
            # Split at the last bracket: the second field of /proc/PID/stat is the name of the program in brackets. The
            # name may contain brackets and blanks, too.
            pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
            command = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
        except OSError:  # the process id is 0, or the system has no /proc
            break
        named = _EXECUTOR_ID.search(command)
        if named is not None:
            host = _HOST.search(command)
            return ExecutorIdentity(named[1], pid, host[1] if host is not None else socket.gethostname())
        if "org.apache.spark.deploy.SparkSubmit" in command:
            return ExecutorIdentity(DRIVER, pid)
    return ExecutorIdentity(DRIVER, None)
