"""Registers commands whose extra is not installed. The help lists the commands of a missing extra. A call of one of
these commands prints the pip command that installs the extra.

While a module that registers commands is being imported, it must not import packages of its extra. If the commands of a
module need an extra, the module's function `register` begins with

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
    """Raised if a command is called and its extra is not installed."""


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra of this project. `name`: the name of the extra in `pip install 'assignor[name]'`. `modules`: the modules
    of other projects that the extra installs. The commands of the extra need all of these modules.
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
        """Registers the commands of an extra that is not installed. A registered command of a missing extra accepts any
        arguments, and ends with exit code 2.
        """
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
