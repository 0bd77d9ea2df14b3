"""What all commands share of the terminal: exit codes, and messages on stderr.

Exit codes, the same for every command: 0 for success. 1 when the answer is no: who was asked has answered, or the work
was done, and the result is not what was wished for. 2 when there is no answer: the command or its input is wrong, or
nobody could be asked. A signal ends a command with 128 and its number, as a shell reports it.
"""

from __future__ import annotations

import signal
import sys
from collections import Counter
from typing import NoReturn

import typer

from assignor.errors import AssignorFault, InputError, Unavailable
from assignor.names.printable import lines

EXIT_NO = 1
EXIT_UNUSABLE = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_NOBODY_READS = 128 + signal.SIGPIPE


class CannotFinish(AssignorFault):
    """The command could not do its work, and its exit code 1 is already one of its results: it ends with 2."""


def exit_code_of(fault: AssignorFault) -> int:
    """2 for a user's mistake, for somebody who could not be asked and for a command that could not finish; 1 when the
    answer is no. The one place where faults become exit codes.
    """
    return EXIT_UNUSABLE if isinstance(fault, InputError | Unavailable | CannotFinish) else EXIT_NO


def exit_code_of_signal(interrupt: KeyboardInterrupt) -> int:
    """130 for Ctrl-C. One that was raised for another signal has its number as its argument."""
    return 128 + int(interrupt.args[0]) if interrupt.args else EXIT_INTERRUPTED


def say(text: str) -> None:
    """Writes a message. Results go to stdout instead."""
    print(lines(text), file=sys.stderr)


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
            say(f"error: {where}: {problem}")

    def say_how_many_more(self) -> None:
        for file, count in self._of_file.items():
            if count > self.SHOWN:
                more = count - self.SHOWN
                lines = "line" if more == 1 else "lines"
                say(f"error: {file}: {more:,} more {lines} cannot be used: is this a recording?")

    def leave_if_any(self) -> None:
        """Ends the command with exit code 2 when a line was set aside."""
        self.say_how_many_more()
        if self.count:
            leave(EXIT_UNUSABLE)
