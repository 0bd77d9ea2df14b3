"""A user's own assignor where the work is done: executors and worker processes look where the command was started."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from assignor.task_assignors.base import TaskAssignor
from assignor.task_assignors.registry import task_assignor_named


@dataclass(frozen=True, slots=True)
class OwnAssignors:
    """Loads a user's own assignor, `module:Class`, also from `directory`: that of the command, which runs its user's
    code. Executors have the directory when they share a file system with it.
    """

    directory: str

    def __call__(self, path: str) -> TaskAssignor:
        """Raises InputError saying what is wrong with the module or the class."""
        if self.directory not in sys.path and os.path.isdir(self.directory):
            sys.path.insert(0, self.directory)
        return task_assignor_named(path)
