"""Loads a user's own task assignor, named `module:Class`. The module may be in the directory where the command was
started.

Executors and worker processes also load the assignor. So the work that is sent to executors and worker processes
contains the path of this directory.
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
    """Loads a user's own task assignor. `directory`: the directory in which the command was started. The assignor's
    module may be in this directory. Executors find the module in this directory if they share a file system with the
    command.
    """

    directory: str

    def __call__(self, path: str) -> TaskAssignor:
        """Loads an assignor. Raises InputError if the module or the class cannot be used. `path`: the assignor in the
        form module:Class.
        """
        if self.directory not in sys.path and os.path.isdir(self.directory):
            sys.path.insert(0, self.directory)
        return task_assignor_named(path)

    def check(self, names: Iterable[str | None]) -> None:
        """Loads the user's own assignors among these names. Call this method before the work begins, so that errors are
        reported early. The early import is also necessary because Spark sends only imported modules to executors.
        Raises InputError if an assignor cannot be loaded.
        """
        for name in names:
            if name is not None and is_class_path(name):
                self(name)


def load_own_assignor(path: str) -> TaskAssignor:
    """Loads a user's own task assignor in the process of the command. Raises InputError if `OwnAssignors` cannot load
    the assignor.
    """
    return OwnAssignors(os.getcwd())(path)
