"""The process that workers are forked from: it has imported what they need, has one thread, and only forks.

Each worker is a copy of it, ready within milliseconds. The serving process cannot be forked itself: it has threads and
an event loop. Commands come on a socket, one at a time (see `COMMAND`); the process ends when the socket is closed.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import socket
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress

from coordinator_api.workers.worker_process import work

COMMAND = struct.Struct(">ci")
"""A letter and a number. FORK: with the niceness, and the worker's end of its socket beside it; answered with the
process id, or the negative `errno`. END: with a process id, which is killed; answered with its exit code."""
ANSWER = struct.Struct(">i")
FORK, END = b"F", b"E"


def main(descriptor: int, preload: Iterable[str]) -> None:
    """Serve commands. `preload`: modules that workers will need."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # results go to stdout, and whatever a job prints is none
    for name in preload:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what is here stays as it is, so the copies can share its memory
    # a service that is killed in the middle of a command reads no answer: that is an end like any other
    with socket.socket(fileno=descriptor) as control, suppress(ConnectionError):
        while True:
            command, descriptors, *_ = socket.recv_fds(control, COMMAND.size, 1)
            if not command:
                return
            letter, number = COMMAND.unpack(command)
            control.sendall(ANSWER.pack(_fork(control, descriptors[0], number) if letter == FORK else _end(number)))


def _fork(control: socket.socket, descriptor: int, nice: int) -> int:
    connection = socket.socket(fileno=descriptor)
    try:
        process = os.fork()
    except OSError as error:
        connection.close()
        return -(error.errno or 1)
    if process == 0:
        try:
            control.close()
            work(connection, nice)
        finally:
            os._exit(0)
    connection.close()
    return process


def _end(process: int) -> int:
    """Workers that ended by themselves are waited for here, too: until then nobody else can get their number."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    try:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    except ChildProcessError:
        return 0
