"""The fork server, and the main function of a worker. A worker answers each job on its socket with a value or an error.

A worker is a fork of the fork server, so the worker is ready within milliseconds. The fork server has one thread, and
has imported the modules that workers need. The serving process itself cannot be forked, because it has threads and an
event loop. The fork server reads commands (see `COMMAND`) from a socket, one after the other. The fork server ends when
the socket is closed.

A worker ends when the other end of its socket is closed, even during a job. Because of this, a worker ends when the
serving process ends for any reason. A terminal or a service manager sends SIGINT and SIGTERM to every process of the
service. A worker ignores SIGINT and SIGTERM, because only the serving process ends workers. If memory is short, the
kernel kills workers first, and not the serving process.
"""

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
"""The format of the length prefix of each message. A worker sends an empty message when it has received a whole job and
begins to run it.
"""

_ASK_KERNEL_FIRST = "500"
"""The `oom_score_adj` of workers: when memory is short, the kernel kills a worker before the serving process."""
_COLLECTED_AFTER = 1_000_000
"""The number of new objects after which the garbage collector runs. A job makes millions of objects that live until the
job ends. With the value 700, which is Python's default, jobs took twice as long.
"""


class JobFailed(AssignorFault):
    """A job raised an error that cannot be pickled. The message has the type and text of the error."""


def work(connection: socket.socket, nice: int) -> None:
    """Run jobs until the connection ends."""
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
            gc.collect()  # collect garbage now, because no caller waits at this point
            return_freed_memory()


def _end_with_the_connection(descriptor: int) -> None:
    """End this process when the connection closes, even while a job runs."""
    poll = select.poll()
    poll.register(descriptor, 0)  # with event mask 0, poll() reports only that the other end has closed (POLLHUP)
    poll.poll()
    os._exit(0)


def _receive(jobs: BinaryIO) -> bytes | None:
    """Receives one job. Returns None if the connection ends before the job is complete."""
    head = jobs.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(head)
    job = jobs.read(size)
    return job if len(job) == size else None


def _answer(job: bytes) -> bytes:
    """Runs a job. Returns the pickled answer: True and the value, or False and the error. The answer also contains the
    memory of this process in bytes.
    """
    try:
        function, arguments = _unpickled(job)
        value = function(*arguments)
        return pickle.dumps((True, value, _resident_bytes()), pickle.HIGHEST_PROTOCOL)
    except BaseException as fault:  # a job must not end the worker, so SystemExit is answered like other errors
        return _refusal(fault)


def _unpickled(job: bytes) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return pickle.loads(job)  # type: ignore[no-any-return]  # noqa: S301 (the service itself sent it)


def _refusal(fault: BaseException) -> bytes:
    if isinstance(fault, OwnAssignorFailed) or not isinstance(fault, AssignorFault):
        fault.add_note(f"In a worker process:\n{''.join(traceback.format_exception(fault)).rstrip()}")
    try:
        if not isinstance(fault, Exception):
            raise TypeError
        answer = pickle.dumps((False, fault, _resident_bytes()), pickle.HIGHEST_PROTOCOL)
        pickle.loads(answer)  # noqa: S301 (some errors can be pickled but not unpickled)
    except Exception:
        text = JobFailed(f"{type(fault).__name__}: {fault}")
        return pickle.dumps((False, text, _resident_bytes()), pickle.HIGHEST_PROTOCOL)
    return answer


def _resident_bytes() -> int:
    """Returns the memory of this process in bytes. The result is the peak size if the system does not report the
    present size.
    """
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


COMMAND = struct.Struct(">ci")
"""The format of a command: a letter and a number. The command FORK starts a worker. The number of a FORK command is the
niceness of the new worker. The command FORK also passes a descriptor: the worker's end of its socket. The fork server
answers FORK with the worker's process id, or with the negative `errno`. The command END kills a worker. The number of
an END command is the worker's process id. The fork server answers END with the exit code of the killed worker.
"""
ANSWER = struct.Struct(">i")
FORK, END = b"F", b"E"


def main(descriptor: int, preload: Iterable[str]) -> None:
    """Run the fork server. `preload`: modules that workers will need."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    # stdout of the service is only for results, so the output of jobs goes to stderr
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for name in preload:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # The imported objects stay unchanged, so the workers can share their memory.
    # If the service is killed during a command, `sendall` raises ConnectionError. After a ConnectionError, the fork
    # server ends as usual.
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
    """Kill a worker and reap it. The worker may have ended by itself. The system does not reuse the process id of a
    worker before the worker is reaped. Returns the exit code of the worker.
    """
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    try:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    except ChildProcessError:
        return 0
