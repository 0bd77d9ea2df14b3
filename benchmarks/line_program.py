"""A program that is told one command a line on its standard input, and answers each with a line."""

import subprocess
import tempfile
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from tests.checkout import ROOT

_END_OF_WORDS = 3_000


class LineProgram:
    """A context manager: the process, which is killed at the end. Whoever asks bounds the time."""

    def __init__(self, command: Sequence[str]) -> None:
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the program
        self._process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._words, text=True, cwd=ROOT
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()
        self._words.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """May come from another thread, while an answer is awaited."""
        self._process.kill()

    def ask(self, command: str) -> str | None:
        """The answer; None when the process ends without one."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{command}\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except OSError:
            answer = ""
        return answer.strip() if answer.endswith("\n") else None

    def last_words(self) -> str:
        """The end of its standard error, once it has ended."""
        self._process.wait()
        self._words.seek(0)
        return self._words.read().decode(errors="replace")[-_END_OF_WORDS:]
