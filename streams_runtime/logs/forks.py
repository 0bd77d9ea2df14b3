"""Objects that must not cross a fork are reset in the child, before anything else runs there.

Rule: the child of a fork gets copies of open files, connections and locks that belong to the parent's threads. SQLite
forbids using such a connection in the child, and even closing it. Spark forks processes that may hold a log which their
parent has opened.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class SurvivesFork(Protocol):
    def reset_after_fork(self) -> None:
        """Forget what belongs to the parent. Called in the child, which has a single thread."""
        ...


_all: weakref.WeakSet[SurvivesFork] = weakref.WeakSet()


def reset_in_children(holder: SurvivesFork) -> None:
    _all.add(holder)


def _reset_all() -> None:
    for holder in list(_all):
        holder.reset_after_fork()


os.register_at_fork(after_in_child=_reset_all)
