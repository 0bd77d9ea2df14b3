"""What a coordinator does with the groups that it owns, and what it knows of those of others."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple, Protocol


class OtherGroup(NamedTuple):
    """A group that is not here. `url`: of its owner, None when nobody has it."""

    group_id: str
    url: str | None
    members: int


class OwnedGroups(Protocol):
    """What the coordinator does with the groups that it owns. `epoch`: each of its writes names it."""

    async def open_owned(self, group_id: str, epoch: int) -> bool:
        """Load and lead it; whether there is one. Raises StoreError when it could not be read for now."""

    def is_open(self, group_id: str) -> bool:
        """Also one whose log cannot be read."""

    async def close_owned(self, group_id: str) -> Callable[[], None] | None:
        """Let it finish its commits, and answer nothing from its memory any more. None for one that is not open.

        What it gives lets go the requests that are held. They will look for the group anew.
        """

    def lose(self, group_id: str) -> None:
        """It is not here any more."""

    def at_rest(self) -> Collection[str]:
        """Groups that may be closed without loss of work."""

    def read_again(self) -> None:
        """Read each group from the store before its next event."""

    def let_go(self) -> None:
        """Have all requests that are held answered now."""
