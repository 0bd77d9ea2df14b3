"""A command of `assignor` that runs on, as a real process of its own: started, killed, started again.

What it says on stderr is kept in a file, and shown when something goes wrong.
"""

import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from tests.checkout import ROOT
from tests.known import known
from tests.program import PROGRAM, environment
from tests.running_program import RunningProgram
from tests.waiting import wait_until

LONGEST_WAIT_S = 60.0
_LONGEST_END_S = 60.0
_END_OF_STDERR = 3000


class AssignorProcess:
    """`name`: of its files `<name>.stdout` and `<name>.stderr` in `directory`."""

    def __init__(self, name: str, arguments: Sequence[str], directory: Path) -> None:
        self.name = name
        self._arguments = tuple(arguments)
        self._stdout, self._stderr = directory / f"{name}.stdout", directory / f"{name}.stderr"
        self._process: RunningProgram | None = None
        directory.mkdir(parents=True, exist_ok=True)

    def start(self) -> Self:
        """Does not wait for anything it does."""
        assert self._process is None, f"{self.name} runs already"
        self._process = RunningProgram(
            [*PROGRAM, *self._arguments],
            self._stderr,
            stdout=self._stdout,
            cwd=ROOT,
            environment=environment(),
            own_session=True,
        )
        return self

    def kill(self) -> None:
        """SIGKILL, if it runs."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def terminate(self) -> int:
        """SIGTERM, and its exit status when it has ended by itself."""
        known(self._process).process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Its exit status when it has ended by itself."""
        process, self._process = known(self._process), None
        try:
            return process.wait(_LONGEST_END_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end: {self.last_words()}") from None

    def wait_for_message(self, words: str, times: int = 1, timeout_s: float = LONGEST_WAIT_S) -> None:
        """Until so many lines of its stderr have these words."""
        what = f"{words!r}, {times} times,"
        self.wait_until(lambda: sum(words in line for line in self.lines()) >= times, what, timeout_s)

    def wait_until(self, holds: Callable[[], bool], what: str, timeout_s: float) -> None:
        """For what shows in files. Raises AssertionError when time is up or it has ended."""
        process, state = self._process, lambda: f"{self.name}: {what}: {self.last_words()}"
        wait_until(holds, state, timeout_s, 0.05, lambda: process is None or process.is_running)

    def check(self) -> None:
        """Raises AssertionError when it has ended though nobody told it to."""
        if self._process is not None and not self._process.is_running:
            raise AssertionError(f"{self.name} ended with {self._process.process.returncode}: {self.last_words()}")

    def messages(self) -> str:
        """All of its stderr."""
        return self._stderr.read_text(errors="replace")

    def lines(self) -> list[str]:
        return self.messages().splitlines()

    def printed(self) -> str:
        """All of its stdout."""
        return self._stdout.read_text()

    def last_words(self) -> str:
        return self.messages()[-_END_OF_STDERR:]
