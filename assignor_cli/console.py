"""Exit codes and messages on stderr, the same for all commands.

Exit codes:

- 0: success.
- 1: the answer is no. The service has answered, or the work was done, but the result is not the desired one.
- 2: there is no answer. The command or its input is wrong, or the service could not be reached.
- 128 plus the number of the signal: a signal ended the command, as a shell reports it.
"""

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
    """The command could not do its work. The exit code is 2, for commands whose exit code 1 is a result."""


def exit_code_of(fault: AssignorFault) -> int:
    """The exit code of a fault: 2 for a user's mistake, for a service that could not be reached, and for a command that
    could not finish; otherwise 1. All faults get their exit codes here.
    """
    return EXIT_UNUSABLE if isinstance(fault, InputError | Unavailable | CannotFinish) else EXIT_NO


def exit_code_of_signal(interrupt: KeyboardInterrupt) -> int:
    """The exit code of an interrupt: 130 for Ctrl-C. A KeyboardInterrupt that was raised for another signal has the
    signal's number as its argument.
    """
    return 128 + int(interrupt.args[0]) if interrupt.args else EXIT_INTERRUPTED


def print_message(text: str) -> None:
    """Writes a message to stderr. Results go to stdout instead."""
    print(lines(text), file=sys.stderr)


def leave(code: int) -> NoReturn:
    """Ends the command with this exit code."""
    raise typer.Exit(code)


class LinesSetAside:
    """The input lines that a command could not use. The first five of each file are reported as file:line; the number
    of the others is reported at the end. The command continues with the next line.
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
            print_message(f"error: {where}: {problem}")

    def print_rest_count(self) -> None:
        for file, count in self._of_file.items():
            if count > self.SHOWN:
                more = count - self.SHOWN
                lines = "line" if more == 1 else "lines"
                print_message(f"error: {file}: {more:,} more {lines} cannot be used: is this a recording?")

    def leave_if_any(self) -> None:
        """Ends the command with exit code 2 if a line could not be used."""
        self.print_rest_count()
        if self.count:
            leave(EXIT_UNUSABLE)
