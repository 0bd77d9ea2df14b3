"""`assignor record` in a process of its own: started, awaited by what it says, killed."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.checkout import ROOT
from tests.program import PROGRAM, environment

LONGEST_WAIT_S = 60.0


class RecorderProcess:
    """`arguments`: those after `record`. It runs from the start on; `reports` has its lines on stderr."""

    def __init__(self, *arguments: str, cwd: Path = ROOT) -> None:
        self.reports: list[str] = []
        self._line_arrived = threading.Condition()
        self._process = subprocess.Popen(
            [*PROGRAM, "record", *arguments],
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env=environment(),
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_until_reported(self, words: str, times: int = 1) -> None:
        self.wait_until(lambda: sum(words in line for line in self.reports) >= times, f"{words!r}, {times} times")

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        """Check `holds` again after each line of output. Raises AssertionError."""
        deadline = time.monotonic() + LONGEST_WAIT_S
        with self._line_arrived:
            while not holds():
                assert time.monotonic() < deadline, f"no {what} within {LONGEST_WAIT_S:g} s: {self.reports}"
                assert self._reader.is_alive(), f"ended without {what}: {self.reports}"
                self._line_arrived.wait(0.2)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self.wait()

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Until it ends by itself; the exit code."""
        code = self._process.wait(LONGEST_WAIT_S)
        self._reader.join(LONGEST_WAIT_S)
        assert self._process.stdout is not None
        self.printed = self._process.stdout.read()
        self._process.stdout.close()
        return code

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            for line in stderr:
                with self._line_arrived:
                    self.reports.append(line.rstrip("\n"))
                    self._line_arrived.notify_all()


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
