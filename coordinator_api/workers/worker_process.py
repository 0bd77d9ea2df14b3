"""A worker: jobs arrive on a socket, one at a time, and each is answered with a value or an error.

A worker is a copy of the fork server, ready within milliseconds. The fork server has imported what workers need, has
one thread, and only forks: the serving process cannot be forked itself, because it has threads and an event loop. It
takes commands on a socket, one at a time (see `COMMAND`), and ends when the socket is closed.

Rules: a worker lives as long as the other end of its socket is open, even in the middle of a job; so it ends when the
serving process does, however that ended. It ignores SIGINT and SIGTERM, which a terminal or a service manager sends to
every process of the service: the serving process says when a worker ends. When memory is short, the kernel takes a
worker before the serving process.
"""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import resource
import select
import signal
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, BinaryIO

from assignor.errors import AssignorFault, OwnAssignorFailed
from operating_system.processes import return_freed_memory

LENGTH = struct.Struct(">Q")
"""Before each message. A worker says first, with an empty one, that it has a whole job."""

_ASK_KERNEL_FIRST = "500"
_COLLECTED_AFTER = 1_000_000
"""Objects. A job makes millions that live as long as it does: looking through them for cycles every 700 doubled its
time."""


class JobFailed(AssignorFault):
    """A job raised an error that cannot leave its process. The message has its type and text."""


def work(connection: socket.socket, nice: int) -> None:
    """Serve until the connection ends."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with suppress(OSError):
        os.nice(nice)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(_ASK_KERNEL_FIRST)
    gc.set_threshold(_COLLECTED_AFTER)
    threading.Thread(target=_end_with_the_connection, args=(connection.fileno(),), daemon=True).start()
    with suppress(OSError), connection.makefile("rb") as jobs:
        while (job := _receive(jobs)) is not None:
            connection.sendall(LENGTH.pack(0))  # the job has begun
            answer = _answer(job)
            connection.sendall(LENGTH.pack(len(answer)))
            connection.sendall(answer)
            del job, answer
            gc.collect()  # while nobody waits
            return_freed_memory()


def _end_with_the_connection(descriptor: int) -> None:
    """Whatever the job is doing."""
    poll = select.poll()
    poll.register(descriptor, 0)  # only that the other end has closed
    poll.poll()
    os._exit(0)


def _receive(jobs: BinaryIO) -> bytes | None:
    """None when the connection ends before a whole job has come."""
    head = jobs.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(head)
    job = jobs.read(size)
    return job if len(job) == size else None


def _answer(job: bytes) -> bytes:
    """Pickled: whether it is a value, the value or error, and the memory of this process in bytes."""
    try:
        function, arguments = _unpickled(job)
        value = function(*arguments)
        return pickle.dumps((True, value, _resident_bytes()), pickle.HIGHEST_PROTOCOL)
    except BaseException as fault:  # even SystemExit: only the serving process ends a worker
        return _refusal(fault)


def _unpickled(job: bytes) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return pickle.loads(job)  # type: ignore[no-any-return]  # noqa: S301 (from the process that started this one)


def _refusal(fault: BaseException) -> bytes:
    if isinstance(fault, OwnAssignorFailed) or not isinstance(fault, AssignorFault):
        fault.add_note(f"In a worker process:\n{''.join(traceback.format_exception(fault)).rstrip()}")
    try:
        if not isinstance(fault, Exception):
            raise TypeError
        answer = pickle.dumps((False, fault, _resident_bytes()), pickle.HIGHEST_PROTOCOL)
        pickle.loads(answer)  # noqa: S301 (some errors can be written and not be read)
    except Exception:
        text = JobFailed(f"{type(fault).__name__}: {fault}")
        return pickle.dumps((False, text, _resident_bytes()), pickle.HIGHEST_PROTOCOL)
    return answer


def _resident_bytes() -> int:
    """Now, where the system says so; elsewhere the most that it ever was."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


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
