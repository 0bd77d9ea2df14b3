"""A program as a process of its own: what it writes goes to files, and it ends with its context at the latest."""

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.known import known
from tests.waiting import wait_until

WITHIN_S = 240.0
"""Spark starts within seconds, and on a machine that is busy with other tests within minutes."""


class RunningProgram:
    """`log`: the file for its stderr, and for its stdout unless `stdout` names another file; both are appended to.

    `own_session`: signals, also those at the end, go to the program and all processes that it started, as Ctrl-C does
    in a terminal. `first`: the signal at the end of the context; the program is killed if it does not end by it.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        stdout: Path | None = None,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        own_session: bool = False,
        first: signal.Signals = signal.SIGINT,
    ) -> None:
        self._log, self._stdout, self._own_session, self._first = log, stdout or log, own_session, first
        with log.open("ab") as errors, self._stdout.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=own_session,
            )
        self.pid = self.process.pid

    @property
    def log(self) -> str:
        """The content of the file for stderr."""
        return self._log.read_text(errors="replace")

    @property
    def printed(self) -> str:
        """The content of the file for stdout."""
        return self._stdout.read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def wait_for(self, pattern: str, within_s: float = WITHIN_S) -> str:
        """Waits for `pattern` in the log, where ^ and $ are the ends of a line; returns the group, or all of it."""
        wanted = re.compile(pattern, re.MULTILINE)
        found = wait_until(
            lambda: wanted.search(self.log),
            lambda: f"{pattern!r}; log:\n{self.log}",
            within_s,
            every_s=0.05,
            alive=lambda: self.is_running,
        )
        return known(found)[wanted.groups]

    def wait(self, within_s: float = WITHIN_S) -> int:
        """Its exit code. Kills it if it does not end in time, and raises TimeoutExpired."""
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def signal(self, number: signal.Signals) -> None:
        if not self.is_running:
            return
        if self._own_session:
            os.killpg(self.pid, number)
        else:
            self.process.send_signal(number)

    def interrupt(self, within_s: float = WITHIN_S) -> int:
        """Sends SIGINT, and returns its exit code."""
        self.signal(signal.SIGINT)
        return self.wait(within_s)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.signal(self._first)
        try:
            self.process.wait(WITHIN_S / 4)
        except subprocess.TimeoutExpired:
            self.kill()
