"""Which groups have members behind which connection, so that a broken one is told where it matters."""

from __future__ import annotations

from collections.abc import Callable

Lost = Callable[[int], None]
"""Tells a group that this connection broke."""


class GroupsOfConnections:
    """Of one service. `bind` costs next to nothing, as it is called for every heartbeat of a process."""

    def __init__(self) -> None:
        self._bound: dict[int, dict[str, Lost]] = {}

    @property
    def count(self) -> int:
        return len(self._bound)

    def bind(self, connection_id: int, group_id: str, lost: Lost) -> None:
        self._bound.setdefault(connection_id, {})[group_id] = lost

    def lost(self, connection_id: int) -> None:
        """It broke: every group that has members behind it hears of it."""
        for lost in self._bound.pop(connection_id, {}).values():
            lost(connection_id)

    def closed(self, connection_id: int) -> None:
        """The service closed it, which says nothing about the members behind it."""
        self._bound.pop(connection_id, None)
