"""A user's own assignor, `module:Class`, also looked for in the working directory: a command runs its user's code."""

from __future__ import annotations

import os
import sys

from assignor.task_assignors.base import TaskAssignor
from assignor.task_assignors.registry import task_assignor_named


def load_own_assignor(path: str) -> TaskAssignor:
    """Raises InputError saying what is wrong with the module or the class."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return task_assignor_named(path)
