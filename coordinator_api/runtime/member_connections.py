"""Which groups have members behind which connection, so that the groups concerned are notified of a broken one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

Lost = Callable[[int, Collection[str]], None]
"""Notifies a group that this connection broke, with the members of its last heartbeat."""


class GroupsOfConnections:
    """Of one service. `bind` costs next to nothing, as it is called for every heartbeat of a process."""

    def __init__(self) -> None:
        self._bound: dict[int, dict[str, tuple[Collection[str], Lost]]] = {}

    @property
    def count(self) -> int:
        return len(self._bound)

    def bind(self, connection_id: int, group_id: str, member_ids: Collection[str], lost: Lost) -> None:
        self._bound.setdefault(connection_id, {})[group_id] = (member_ids, lost)

    def lost(self, connection_id: int) -> None:
        """Report the end of a connection to every group that has members behind it."""
        for member_ids, lost in self._bound.pop(connection_id, {}).values():
            lost(connection_id, member_ids)

    def forget(self, group_id: str) -> None:
        """The group is not here any more: what becomes of connections says nothing about its members."""
        for groups in self._bound.values():
            groups.pop(group_id, None)

    def closed(self, connection_id: int) -> None:
        """The service closed it, which says nothing about the members behind it."""
        self._bound.pop(connection_id, None)


class HeldHeartbeats:
    """Of one group: on which connections its members have a heartbeat held, the one held last at the end."""

    def __init__(self) -> None:
        self._held_on: dict[str, dict[int, None]] = {}

    @contextmanager
    def held(self, connection_id: int | None, member_ids: Collection[str]) -> Iterator[None]:
        """As long as its answer is held, or until its connection breaks. None: a connection that nobody watches."""
        if connection_id is None:
            yield
            return
        for member_id in member_ids:
            self._held_on.setdefault(member_id, {})[connection_id] = None
        try:
            yield
        finally:
            self._forget_members(connection_id, member_ids)

    def lost(self, connection_id: int, member_ids: Collection[str]) -> Mapping[str, int]:
        """The connection broke. Those of these members that have a heartbeat held on another one, and on which."""
        self._forget_members(connection_id, member_ids)
        return {each: next(reversed(self._held_on[each])) for each in member_ids if each in self._held_on}

    def _forget_members(self, connection_id: int, member_ids: Collection[str]) -> None:
        for member_id in member_ids:
            held_on = self._held_on.get(member_id)
            if held_on is not None:
                held_on.pop(connection_id, None)
                if not held_on:
                    del self._held_on[member_id]
