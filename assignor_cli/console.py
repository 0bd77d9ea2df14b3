"""The exit codes and the messages on stderr, for all commands.

Exit codes:

- 0: the command succeeded.
- 1: the answer of the command is "no". The command ran to its end or the service responded, and the result is negative.
- 2: the command has no result. The arguments or the input of the command are wrong, or the service could not be
  reached.
- 128 plus the number of a signal: the signal ended the command. A shell also reports this exit code for a program that
  a signal ended.
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
    """A command could not do its work. Its exit code is 2, because its exit code 1 stands for the answer "no"."""


def exit_code_of(fault: AssignorFault) -> int:
    """Returns the exit code of a fault. The code is 2 for a user's mistake, a service that could not be reached, and
    CannotFinish. The code is 1 for any other fault. No other function chooses the exit code of a fault.
    """
    return EXIT_UNUSABLE if isinstance(fault, InputError | Unavailable | CannotFinish) else EXIT_NO


def exit_code_of_signal(interrupt: KeyboardInterrupt) -> int:
    """Returns the exit code of a KeyboardInterrupt: 130 for Ctrl-C. If a signal other than SIGINT caused the
    KeyboardInterrupt, the argument of the KeyboardInterrupt is the number of the signal.
    """
    return 128 + int(interrupt.args[0]) if interrupt.args else EXIT_INTERRUPTED


def print_message(text: str) -> None:
    """Writes a message to stderr. For results use `assignor_cli.output.show`, which writes to stdout."""
    print(lines(text), file=sys.stderr)


def leave(code: int) -> NoReturn:
    """Ends the command with the exit code `code`."""
    raise typer.Exit(code)


class LinesSetAside:
    """The input lines that a command could not use. The first five unusable lines of each file are reported as
    file:line. For the other unusable lines, only their number is reported at the end. After an unusable line, the
    command continues with the next line.
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
