"""What all commands share of the terminal: exit codes, and messages on stderr."""

from __future__ import annotations

import sys
from collections import Counter
from typing import NoReturn

import typer

from assignor.errors import AssignorFault, InputError

EXIT_NO = 1
EXIT_UNUSABLE = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as a shell has it
EXIT_NOBODY_READS = 141  # 128 + SIGPIPE


class CannotFinish(AssignorFault):
    """The command could not do its work, and its exit code 1 is already one of its results: it ends with 2."""


def exit_code_of(fault: AssignorFault) -> int:
    """2 for a user's mistake and for a command that could not finish; 1 when the answer is no. The one place where
    faults become exit codes.
    """
    return EXIT_UNUSABLE if isinstance(fault, InputError | CannotFinish) else EXIT_NO


def say(text: str) -> None:
    """Writes a message. Results go to stdout instead."""
    print(text, file=sys.stderr)


def leave(code: int) -> NoReturn:
    """Ends the command with this exit code."""
    raise typer.Exit(code)


class LinesSetAside:
    """The lines that a command could not use: the first of each file are reported as file:line, the others are counted
    at the end, and the command goes on with the next.
    """

    SHOWN = 5

    def __init__(self) -> None:
        self.count = 0
        self._of_file: Counter[str] = Counter()

    def __call__(self, where: str, problem: object) -> None:
        file = where.rpartition(":")[0]
        self.count += 1
        self._of_file[file] += 1
        if self._of_file[file] <= self.SHOWN:
            say(f"{where}: {problem}")

    def say_how_many_more(self) -> None:
        for file, count in self._of_file.items():
            if count > self.SHOWN:
                more = count - self.SHOWN
                say(f"{file}: {more:,} more {'line' if more == 1 else 'lines'} cannot be used: is this a recording?")

    def leave_if_any(self) -> None:
        """Ends the command with exit code 2 when a line was set aside."""
        self.say_how_many_more()
        if self.count:
            leave(EXIT_UNUSABLE)
