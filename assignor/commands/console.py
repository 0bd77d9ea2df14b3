"""What all commands share of the terminal: exit codes, and messages on stderr."""

from __future__ import annotations

import sys
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
    """The lines that a command could not use: each is reported as file:line, and the command goes on with the next."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, where: str, problem: object) -> None:
        self.count += 1
        say(f"{where}: {problem}")

    def leave_if_any(self) -> None:
        """Ends the command with exit code 2 when a line was set aside."""
        if self.count:
            leave(EXIT_UNUSABLE)
