"""A user's own task assignor, named `module:Class`, is also looked for where the command was started.

Executors and worker processes load it as well, so the directory travels to them with the work.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from assignor.recording import is_class_path
from assignor.task_assignors.base import TaskAssignor
from assignor.task_assignors.registry import task_assignor_named


@dataclass(frozen=True, slots=True)
class OwnAssignors:
    """Loads a user's own task assignor, also from `directory`: the one the command was started in. Executors find it
    there when they share a file system with the command.
    """

    directory: str

    def __call__(self, path: str) -> TaskAssignor:
        """`path`: module:Class. Raises InputError saying what is wrong with the module or the class."""
        if self.directory not in sys.path and os.path.isdir(self.directory):
            sys.path.insert(0, self.directory)
        return task_assignor_named(path)

    def check(self, names: Iterable[str | None]) -> None:
        """Loads those of `names` that are the user's own: it raises before any work is done, and Spark sends imported
        modules.
        """
        for name in names:
            if name is not None and is_class_path(name):
                self(name)


def load_own_assignor(path: str) -> TaskAssignor:
    """Loads it here, in the process of the command. Raises InputError as `OwnAssignors` does."""
    return OwnAssignors(os.getcwd())(path)
