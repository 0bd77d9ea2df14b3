"""Loads a user's own task assignor, named `module:Class`. The module may be in the directory where the command was
started.

Executors and worker processes also load the assignor, so the work that they receive has the path of this directory.
"""

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from assignor.recording import is_class_path
from assignor.task_assignors.base import TaskAssignor
from assignor.task_assignors.registry import task_assignor_named


@dataclass(frozen=True, slots=True)
class OwnAssignors:
    """Loads a user's own task assignor. The assignor's module may be in `directory`, in which the command was started.
    Executors find the assignor in `directory` if they share a file system with the command.
    """

    directory: str

    def __call__(self, path: str) -> TaskAssignor:
        """Loads the assignor `path` (module:Class). Raises InputError that describes the problem of the module or
        class.
        """
        if self.directory not in sys.path and os.path.isdir(self.directory):
            sys.path.insert(0, self.directory)
        return task_assignor_named(path)

    def check(self, names: Iterable[str | None]) -> None:
        """Loads each of `names` that is a user's own assignor. The early load reports errors before any work is done.
        The early load also imports the modules, because Spark sends only imported modules to executors. Raises
        InputError if an assignor cannot be loaded.
        """
        for name in names:
            if name is not None and is_class_path(name):
                self(name)


def load_own_assignor(path: str) -> TaskAssignor:
    """Loads a user's own task assignor in the process of the command. Raises InputError if `OwnAssignors` cannot load
    the assignor.
    """
    return OwnAssignors(os.getcwd())(path)
