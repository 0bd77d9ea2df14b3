"""One end of the pipe between the process of an instance and that of one of its stream threads.

Rules: any thread may send; one thread receives. When the process at the other end is gone, `receive` raises EOFError at
once, so an end must not be open anywhere else: a process that is forked from this one closes its copy.
"""

from __future__ import annotations

import threading
from multiprocessing.connection import Connection, Pipe
from typing import Any

from assignor.operating_system import reset_in_children
from streams_runtime.thread_processes.pickling import pickled, unpickled


class Channel:
    """`connection`: of this process's own; it is closed with the channel."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        reset_in_children(self)

    def send(self, message: object) -> None:
        """Raises OSError when nobody receives any more; what objects raise when they are pickled."""
        data = pickled(message)
        with self._sending:
            self._connection.send_bytes(data)

    def receive(self) -> Any:
        """Wait for the next message. Raises EOFError or OSError when there will be none."""
        return unpickled(self._connection.recv_bytes())

    def close(self) -> None:
        with self._sending:
            self._connection.close()

    def reset_after_fork(self) -> None:
        self._connection.close()


def new_pipe() -> tuple[Connection, Connection]:
    """Two ends, each for both directions."""
    return Pipe(duplex=True)
