"""The fork server of a coordinator, forked from the process that becomes the coordinator, which has imported all of it.

A plain start spends most of a second of CPU on imports, six times as much as the rest of a coordinator's start, and
tests start hundreds. What a plain start does is tested in `tests/coordinator_api/workers`.
"""

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from typing import cast

from coordinator_api.workers import worker_pool, worker_process
from coordinator_api.workers.worker_pool import ForkedWorkers

Server = tuple[subprocess.Popen[bytes], socket.socket]


class ForkedServer:
    """With the methods of `subprocess.Popen` that `ForkedWorkers` calls, from any thread."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._turn = threading.Lock()
        self._code: int | None = None

    def poll(self) -> int | None:
        return self._waited(os.WNOHANG)

    def wait(self) -> int | None:
        return self._waited(0)

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self._process, signal.SIGKILL)

    def _waited(self, options: int) -> int | None:
        with self._turn:
            if self._code is None:
                process, status = os.waitpid(self._process, options)
                self._code = os.waitstatus_to_exitcode(status) if process else None
            return self._code


def fork_a_server() -> None:
    """For a process that has one thread: the first fork server of its service is forked here and now; one that has to
    stand in for it starts as everywhere else.
    """
    ours, theirs = socket.socketpair()
    process = os.fork()
    if process == 0:
        try:
            ours.close()
            os.setsid()
            worker_process.main(theirs.detach(), worker_pool.MODULES)
        finally:
            os._exit(0)
    theirs.close()
    ready: Iterator[Server] = iter([(cast("subprocess.Popen[bytes]", ForkedServer(process)), ours)])
    plain = ForkedWorkers._start_server

    def start(self: ForkedWorkers) -> Server:
        return next(ready, None) or plain(self)

    ForkedWorkers._start_server = start  # type: ignore[method-assign]
