"""Programs of these tests in processes of their own. They report by printing lines."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.known import known


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")  # one write: a line is there as a whole or not at all
    sys.stdout.flush()


class RunningProgram:
    """A program of a module, in its own process."""

    def __init__(self, module: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        return known(self.process.stdout).readline().strip()

    def rest(self) -> list[str]:
        return known(self.process.stdout).read().splitlines()

    def go_on(self) -> None:
        stdin = known(self.process.stdin)
        stdin.write("\n")
        stdin.flush()

    def signal(self, which: signal.Signals) -> None:
        self.process.send_signal(which)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def running_program(module: str, *arguments: object) -> Iterator[RunningProgram]:
    """Kills the program at the end if it is still running."""
    started = RunningProgram(module, *arguments)
    try:
        yield started
    finally:
        started.kill()
        for stream in (started.process.stdin, started.process.stdout):
            known(stream).close()
