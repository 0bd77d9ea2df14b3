"""Commands whose extra is not installed: the help lists them, and a call prints the command that installs the extra.

A module that registers commands must not import packages of its extra when it is loaded. Its `register` begins with

    if KAFKA.is_missing:
        KAFKA.register_missing(app, "record", "lead")
        return
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import typer

from assignor_cli.console import CannotFinish


class ExtraMissing(CannotFinish):
    """A command was called whose extra is not installed."""


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra of this project. `name`: the name in `pip install 'assignor[name]'`. `modules`: the modules of other
    projects that the extra installs; its commands need all of them.
    """

    name: str
    modules: tuple[str, ...]

    @property
    def is_missing(self) -> bool:
        return any(importlib.util.find_spec(module) is None for module in self.modules)

    @property
    def remedy(self) -> str:
        return f"pip install 'assignor[{self.name}]'"

    def register_missing(self, app: typer.Typer, *commands: str) -> None:
        """Registers the commands of a missing extra. Each accepts any arguments, and ends with exit code 2."""
        for command in commands:
            app.command(
                command,
                help=f"Needs {self.remedy}.",
                context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
                add_help_option=False,
            )(self._refuse_without_extra(command))

    def _refuse_without_extra(self, command: str) -> Callable[[], None]:
        def run() -> NoReturn:
            raise ExtraMissing(f"assignor {command} needs an extra that is not installed: {self.remedy}")

        return run
