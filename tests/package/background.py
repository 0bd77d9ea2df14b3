"""Programs of a fresh environment that run until the test ends them: a coordinator, Spark's master, its workers."""

import re
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.package.environments import FreshEnvironment

TOLD_WITHIN_S = 120.0
_ENDS_WITHIN_S = 120.0
_LOOKS_EVERY_S = 0.1


class Background:
    """One program, ended with the context: by SIGINT first, as Ctrl-C does it, and killed when it does not obey."""

    def __init__(self, environment: FreshEnvironment, *command: str, log: Path, **variables: str) -> None:
        self._log = log
        self.process = environment.start(*command, log=log, **variables)

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_for(self, pattern: str, within_s: float = TOLD_WITHIN_S) -> str:
        """The first group of `pattern`, as soon as the program has said so."""
        deadline_s = time.monotonic() + within_s
        while time.monotonic() < deadline_s:
            found = re.search(pattern, self.said)
            if found is not None:
                return found[1]
            assert self.process.poll() is None, f"it ended before it said {pattern!r}:\n{self.said}"
            time.sleep(_LOOKS_EVERY_S)
        raise AssertionError(f"it did not say {pattern!r}:\n{self.said}")

    def interrupt(self) -> int:
        """Its exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(_ENDS_WITHIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            try:
                self.interrupt()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
