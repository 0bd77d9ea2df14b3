"""Runs instances as plain processes of this machine: `assignor workers run module:app --local --instances 3`.

Rules:
- Each instance is a separate process with the same Python interpreter as the command. The process imports the
  application (`local_instance`). Local instances need no pickling, and do not import PySpark.
- If a signal from outside ends an instance, the instance is started again, without a limit. Spark also starts a lost
  instance again. If one instance fails at four starts in a row, all instances are stopped (`instance_starts`). A crash,
  such as SIGSEGV in an extension module, counts as a failure. An instance that ended by itself is not started again,
  even if it ended with an error.
- Each line that an instance writes to stderr is printed after the name of the instance, such as `instance-0`. The name
  of the instance's state directory is also `instance-0`.
- SIGTERM makes an instance commit and leave the group. Each instance is in its own process group. So Ctrl-C in a
  terminal reaches only the process of the command. This process then stops the instances. If this process is killed,
  each instance leaves the group by itself and ends.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import IO, Self

from spark_jobs.workers.instance_starts import GIVEN_UP, FailedAttempt, StartFailures, Surroundings, WorkersFailed
from spark_jobs.workers.local_instance import EXIT_LEFT, LocalInstance
from spark_jobs.workers.member_process import DRAIN_TIMEOUT_S, InstanceResult
from streams_runtime.common.states import InstanceState

STOP_TIMEOUT_S = DRAIN_TIMEOUT_S + 5.0
_LAST_OUTPUT_TIMEOUT_S = 1.0
_LONGEST_LINE = 64 * 1024  # bytes
_LEFT = (EXIT_LEFT, 0)
"""The exit codes of an instance that a signal has stopped. The exit code is 0 if the signal arrived before the instance
had tasks and locks (`end_process`).
"""
_CRASHES = frozenset(
    (signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP)
)
"""The signals that a process gets because of an error in its own code. All other signals come from outside of the
process.
"""


class LocalInstances:
    """A context manager that runs a number of instances. After the block, all instances have ended. In the block, call
    `wait` repeatedly until it returns a list.

    `first`: the first instance. The other instances differ from `first` only in their number. `report`: a function that
    receives messages for the user, one line each. Any thread may call `report`.
    """

    def __init__(self, first: LocalInstance, instances: int, report: Callable[[str], None]) -> None:
        self.instances = instances
        self.surroundings = Surroundings("this machine", None, first.coordinator_url)
        self._first = first
        self._report = report
        self._start_failures = StartFailures()
        self._running: dict[int, _Child] = {}
        self._ended: SimpleQueue[_Child] = SimpleQueue()
        self._ends: dict[int, InstanceResult] = {}
        self._stopping = False

    def __enter__(self) -> Self:
        try:
            for number in range(self.instances):
                self._start(replace(self._first, number=number))
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._running and not isinstance(error, KeyboardInterrupt):
                self.stop()
        finally:
            self._kill()

    @property
    def running(self) -> int:
        """The number of instances that have been started, including instances that have ended."""
        return len(self._running) + len(self._ends)

    def wait(self, timeout_s: float | None = None) -> list[InstanceResult] | None:
        """Waits until all instances have ended, and starts lost instances again. Returns an InstanceResult for each
        instance, or None if instances still run after `timeout_s`.

        Raises WorkersFailed if the last four starts of an instance failed, or if this machine cannot start another
        process.
        """
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while self._running:
            left_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
            try:
                ended = self._ended.get(timeout=left_s)
            except Empty:
                return None
            del self._running[ended.instance.number]
            self._take_end(ended)
        return [self._ends[number] for number in sorted(self._ends)]

    def stop(self) -> list[InstanceResult]:
        """Stops the instances: each instance commits, checkpoints, leaves the group and ends. Returns an InstanceResult
        for each instance; empty if the instances had to be killed.
        """
        self._stopping = True
        for process in self._running.values():
            process.popen.terminate()
        ends = self.wait(STOP_TIMEOUT_S)
        if ends is None:
            self._kill()
            return []
        return ends

    def _start(self, instance: LocalInstance) -> None:
        try:
            self._running[instance.number] = _Child(instance, self._report, self._ended)
        except (OSError, RuntimeError) as fault:  # `threading` raises RuntimeError if it cannot start another thread
            raise WorkersFailed(f"instance {instance.number} cannot be started: {fault}") from fault

    def _kill(self) -> None:
        for process in self._running.values():
            process.popen.kill()
        for process in self._running.values():
            process.popen.wait()
        self._running.clear()

    def _take_end(self, ended: _Child) -> None:
        if self._stopping or (ended.end is not None and ended.exit_code != EXIT_LEFT):
            self._ends[ended.instance.number] = ended.end or _end_without_report(ended)
            return
        failure = ended.failure()
        if self._start_failures.is_last(failure):
            raise WorkersFailed(f"{failure}; {GIVEN_UP}")
        self._report(f"{failure}; it is started again")
        self._start(replace(ended.instance, attempt=ended.instance.attempt + 1))


class _Child:
    """A process that runs an instance. The constructor starts the process. When the process has ended and its output
    has been read, this object is put into the queue `ended`.
    """

    def __init__(self, instance: LocalInstance, report: Callable[[str], None], ended: SimpleQueue[_Child]) -> None:
        self.instance = instance
        self.end: InstanceResult | None = None
        self.exit_code = 0
        self._report = b""
        self.popen = subprocess.Popen(  # noqa: S603
            [sys.executable, *instance.arguments()],
            # nothing is written to this stdin pipe; the pipe closes when the process of the command ends
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        self._started_s = time.monotonic()
        self._ended_s = 0.0
        self._last_line = ""
        name = f"instance-{instance.number}"
        assert self.popen.stdout is not None, "it is a pipe"
        assert self.popen.stderr is not None, "it is a pipe"
        self._readers = (
            threading.Thread(target=self._read_report, args=(self.popen.stdout,), name=f"{name}-report", daemon=True),
            threading.Thread(
                target=self._show_lines, args=(self.popen.stderr, name, report), name=f"{name}-lines", daemon=True
            ),
        )
        for reader in self._readers:
            reader.start()
        threading.Thread(target=self._watch, args=(ended,), name=f"{name}-end", daemon=True).start()

    def failure(self) -> FailedAttempt:
        signalled = -self.exit_code if self.exit_code < 0 else signal.SIGTERM if self.exit_code in _LEFT else None
        if signalled is not None:
            reason = f"it was ended by {_signal_name(signalled)}"
        else:
            reason = self._last_line.removeprefix("error: ") or f"exit code {self.exit_code}"
        duration_ms = int(1_000 * (self._ended_s - self._started_s))
        place = f"process {self.popen.pid}"
        is_loss = signalled is not None and signalled not in _CRASHES
        return FailedAttempt(self.instance.number, place, reason, duration_ms, is_loss)

    def _show_lines(self, stderr: IO[bytes], name: str, report: Callable[[str], None]) -> None:
        with stderr:
            # A line that is longer than the limit is shown in parts. Without the limit, output without line ends, such
            # as a progress bar, would fill the memory.
            while line := stderr.readline(_LONGEST_LINE):
                self._last_line = line.decode("utf-8", "replace").rstrip()
                report(f"{name}: {self._last_line}")

    def _read_report(self, stdout: IO[bytes]) -> None:
        with stdout:
            for line in stdout:
                self._report += line

    def _watch(self, ended: SimpleQueue[_Child]) -> None:
        assert self.popen.stdin is not None, "it is a pipe"
        self.exit_code = self.popen.wait()
        self._ended_s = time.monotonic()
        deadline_s = self._ended_s + _LAST_OUTPUT_TIMEOUT_S
        # wait for a limited time, because a child process of the application may keep the pipes open
        for reader in self._readers:
            reader.join(max(0.0, deadline_s - time.monotonic()))
        self.popen.stdin.close()
        self.end = _end_of(self._report)
        ended.put(self)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"


def _end_of(report: bytes) -> InstanceResult | None:
    """Parses the report that `local_instance` wrote. Returns None if the process ended without a report."""
    try:
        document = json.loads(report.splitlines()[-1])
        return InstanceResult(
            document["partition"],
            InstanceState(document["state"]),
            tuple(document["errors"]),
            tuple(document["notices"]),
        )
    # without a report, the last line of stdout may be the output of a start-up hook of Python
    except (IndexError, KeyError, TypeError, ValueError):
        return None


def _end_without_report(ended: _Child) -> InstanceResult:
    """Returns an InstanceResult for an instance that was stopped and wrote no report. If an instance is stopped before
    it has joined the group, it ends at once and writes no report.
    """
    if ended.exit_code in (0, -signal.SIGTERM):
        return InstanceResult(ended.instance.number, InstanceState.NOT_RUNNING)
    return InstanceResult(ended.instance.number, InstanceState.ERROR, (ended.failure().reason,))
