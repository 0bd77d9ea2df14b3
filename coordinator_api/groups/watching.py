"""Who looks at a group for a person, and is told when something new was committed of it.

A commit calls `changed` once, which costs a look into a table while nobody looks. Whoever looks is told at most once
for all that happened since it last asked, so nothing piles up however many commits there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

_EVERY_GROUP = ""
"""No group has this id."""


class Watcher:
    """One who looks. Made by `Watching.watch`."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self._changed: set[str] = set()
        self._stopped = asyncio.Event()

    @property
    def released(self) -> bool:
        """Whether the service stops, so that nobody waits any longer."""
        return self._stopped.is_set()

    async def pause(self, seconds: float) -> None:
        """Returns after this time, or when all are released."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        except TimeoutError:
            pass

    async def wait(self, at_most_s: float) -> frozenset[str]:
        """The groups that have changed since the last call, as soon as there is one; after `at_most_s` seconds, or when
        all are released, perhaps none.
        """
        if not self._woken.is_set():
            try:
                async with asyncio.timeout(at_most_s):
                    await self._woken.wait()
            except TimeoutError:
                return frozenset()
        changed = frozenset(self._changed)
        self._changed.clear()
        if not self.released:
            self._woken.clear()
        return changed

    def tell(self, group_id: str) -> None:
        self._changed.add(group_id)
        self._woken.set()

    def release(self) -> None:
        self._stopped.set()
        self._woken.set()


class Watching:
    """Of one service, on its event loop."""

    def __init__(self) -> None:
        self._watchers: dict[str, set[Watcher]] = {}
        self._released = False

    @contextmanager
    def watch(self, group_id: str | None = None) -> Iterator[Watcher]:
        """`group_id`: None for every group."""
        key = _EVERY_GROUP if group_id is None else group_id
        watcher = Watcher()
        self._watchers.setdefault(key, set()).add(watcher)
        if self._released:
            watcher.release()
        try:
            yield watcher
        finally:
            self._watchers[key].discard(watcher)
            if not self._watchers[key]:
                del self._watchers[key]

    def changed(self, group_id: str) -> None:
        """Something new was committed of the group."""
        for key in (group_id, _EVERY_GROUP):
            for watcher in self._watchers.get(key, ()):
                watcher.tell(group_id)

    def release(self) -> None:
        """Nobody waits any longer: the service stops."""
        self._released = True
        for watchers in self._watchers.values():
            for watcher in watchers:
                watcher.release()
