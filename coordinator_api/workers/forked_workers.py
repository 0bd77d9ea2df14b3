"""Starts and ends workers, through the one fork server that all pools of this process share.

The fork server starts with the first worker, and anew if it was killed. Every method may wait some milliseconds, the
first start most of a second: call them in a thread. The two processes share nothing but sockets: a signal at the
terminal reaches neither of them, and the end of this process ends them, however it came.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from assignor.errors import AssignorFault
from coordinator_api.workers.fork_server import ANSWER, COMMAND, END, FORK

_START = (
    "import sys; sys.path[:] = {path!r}; "
    "from coordinator_api.workers.fork_server import main; main({descriptor}, {preload!r})"
)


class WorkersUnavailable(AssignorFault):
    """No worker process can be started. The message says why."""


@dataclass(frozen=True, slots=True, eq=False)
class Worker:
    """`connection`: this process's end, which does not block. `server`: the fork server that it comes from."""

    process: int
    connection: socket.socket
    server: subprocess.Popen[bytes]


class ForkedWorkers:
    """Safe to use from several threads."""

    def __init__(self, preload: Iterable[str] = ()) -> None:
        """`preload`: modules that jobs will need; importing them once costs each worker nothing."""
        self._preload = tuple(preload)
        self._turn = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def start(self, nice: int) -> Worker:
        """A new worker. Raises WorkersUnavailable."""
        ours, theirs = socket.socketpair()
        try:
            with theirs, self._turn:
                server, control = self._running()
                process = self._ask(control, FORK, nice, [theirs.fileno()])
            if process < 0:
                raise WorkersUnavailable(f"a worker process cannot be started: {os.strerror(-process)}")
        except BaseException:
            ours.close()
            raise
        ours.setblocking(False)
        return Worker(process, ours, server)

    @staticmethod
    def kill(worker: Worker) -> None:
        """At once; never waits. Whoever talks to the worker finds its connection ended. `end` has to follow."""
        if worker.server.poll() is None:
            # nobody has waited for it yet, so that the number is still its own
            with suppress(ProcessLookupError):
                os.kill(worker.process, signal.SIGKILL)
        with suppress(OSError):
            worker.connection.shutdown(socket.SHUT_RDWR)  # ends it, too, should the fork server be gone

    def end(self, worker: Worker) -> int | None:
        """Wait for the end of a worker that was killed or died: its exit code, negative for a signal; None when nobody
        knows.
        """
        with self._turn:
            if worker.server is not self._server or self._control is None:
                return None
            try:
                return self._ask(self._control, END, worker.process, [])
            except WorkersUnavailable:
                return None

    def close(self) -> None:
        """End the fork server; its workers have to be ended before."""
        with self._turn:
            self._stop()

    def _ask(self, control: socket.socket, letter: bytes, number: int, passed: list[int]) -> int:
        try:
            socket.send_fds(control, [COMMAND.pack(letter, number)], passed)
            answer = control.recv(ANSWER.size, socket.MSG_WAITALL)
        except OSError:
            answer = b""
        if len(answer) != ANSWER.size:
            self._stop()
            raise WorkersUnavailable("the process that starts workers has ended")
        code: int = ANSWER.unpack(answer)[0]
        return code

    def _running(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        if self._server is not None and self._server.poll() is not None:
            self._stop()
        if self._server is None or self._control is None:
            self._server, self._control = self._start_server()
        return self._server, self._control

    def _start_server(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        ours, theirs = socket.socketpair()
        with theirs:
            start = _START.format(path=sys.path, descriptor=theirs.fileno(), preload=self._preload)
            server = subprocess.Popen(  # noqa: S603 (this program)
                [sys.executable, "-c", start],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C at the terminal is not for workers
            )
        return server, ours

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None
