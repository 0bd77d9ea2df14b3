"""`assignor` as a process of its own that starts at once: forked from a process that has imported everything.

A plain start spends two seconds of CPU on imports. What is forked has its own process id, environment, directory and
signals, can be killed, and runs the same `main`. What a plain start does is tested in `tests/assignor_cli` and in
`tests/streams_runtime/local_run/test_coordinator_process.py`.
"""

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from importlib.metadata import entry_points
from multiprocessing.connection import Connection, wait
from pathlib import Path

from coordinator_api.workers import worker_pool
from tests.forked_server import fork_a_server

_IMPORTED = (
    __name__,
    "coordinator_api.http.server",
    *worker_pool.MODULES,
    "coordinator_api.web.pages",
    "aiosqlite",
    "alembic.command",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.dialects.sqlite.aiosqlite",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.auto",
    "kafka_groups.leader.leading",
    "kafka_groups.recorder.following",
    "spark_jobs.workers.member_process",
    "tests.spark_jobs.small_application",
    *(entry_point.module for entry_point in entry_points(group="assignor.commands")),
    "tests.prepared_program",
)
CONTEXT = multiprocessing.get_context("forkserver")
"""Starts processes by fork, from one that is otherwise idle: what is in this process does not reach them."""
CONTEXT.set_forkserver_preload(list(_IMPORTED))


class WarmProgram:
    """A running `assignor`, with the methods of `subprocess.Popen` that tests call.

    `stdout`, `stderr`: descriptors that are open for writing. They stay the caller's. `ignored`: signals that it finds
    ignored, as a background job of a shell finds SIGINT. `open_files`: its soft limit of open files.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        stdout: int,
        stderr: int,
        ignored: tuple[signal.Signals, ...] = (),
        open_files: int | None = None,
    ) -> None:
        with ExitStack() as sent:
            outputs = [_sendable(descriptor, sent) for descriptor in (stdout, stderr)]
            self._process = CONTEXT.Process(
                target=_run,
                args=(tuple(arguments), str(cwd), dict(environment), *outputs, ignored, open_files),
                daemon=True,
            )
            self._process.start()
        assert self._process.pid is not None, "it was started"
        self.pid = self._process.pid
        self._arguments = arguments

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, or the negative signal. Raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(list(self._arguments), timeout or 0.0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """As Popen's: nothing when it has ended. Its parent may have seen that before this process hears of it."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run(
    arguments: Sequence[str], *, cwd: Path, environment: Mapping[str, str], timeout_s: float = 120.0
) -> subprocess.CompletedProcess[str]:
    """Until it has ended; what it wrote comes back as text."""
    with ExitStack() as closing:
        files = [closing.enter_context(os.fdopen(os.memfd_create(name), "w+b")) for name in ("stdout", "stderr")]
        stdout, stderr = (file.fileno() for file in files)
        program = WarmProgram(arguments, cwd=cwd, environment=environment, stdout=stdout, stderr=stderr)
        try:
            code = program.wait(timeout_s)
        finally:
            program.kill()
        written = []
        for file in files:
            file.seek(0)
            written.append(file.read().decode())
    return subprocess.CompletedProcess(arguments, code, *written)


def _sendable(descriptor: int, closing: ExitStack) -> Connection:
    """A copy in the one kind of object that takes a descriptor along to another process."""
    return closing.enter_context(Connection(os.dup(descriptor), readable=False))


def end_with_the_tests() -> None:
    """For what is forked: be gone when the process that started this one is, however that ended."""
    tests = multiprocessing.parent_process()
    assert tests is not None, "this process was started by multiprocessing"

    def watch() -> None:
        wait([tests.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _run(
    arguments: Sequence[str],
    cwd: str,
    environment: Mapping[str, str],
    stdout: Connection,
    stderr: Connection,
    ignored: tuple[signal.Signals, ...],
    open_files: int | None,
) -> None:
    from assignor_cli.app import main

    if open_files is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, hard))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(stdout.fileno(), 1)
    os.dup2(stderr.fileno(), 2)
    # those from before the fork believe that they write to what they were opened on
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    stdout.close()
    stderr.close()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.argv = ["assignor", *arguments]
    if arguments[:1] == ("serve",):
        fork_a_server()
    end_with_the_tests()
    main()
