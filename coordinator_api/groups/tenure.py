"""The time in which this coordinator owns one group. What comes out of the group's memory looks at it first.

    check      before an answer is computed: is the group still here, and does the lease still run?
    end        the group is no longer here, or is being handed over
    was_lost   a write was refused, because another coordinator owns the group

It is asked for every heartbeat. On SQLite there is one coordinator, and nothing to look at.
"""

from __future__ import annotations

from collections.abc import Callable

from coordinator_api.store.errors import NotOwner


class Tenure:
    """`epoch`: which each write names. `check_lease`: raises LeaseEnded; None for a group that nobody else can own.

    `lost`: told the group's id when a write was refused.
    """

    __slots__ = ("_check_lease", "_is_over", "_lost", "epoch", "group_id")

    def __init__(
        self,
        group_id: str,
        epoch: int = 0,
        check_lease: Callable[[], None] | None = None,
        lost: Callable[[str], None] = lambda group_id: None,
    ) -> None:
        self.group_id = group_id
        self.epoch = epoch
        self._check_lease = check_lease
        self._lost = lost
        self._is_over = False

    @property
    def is_over(self) -> bool:
        return self._is_over

    def check(self) -> None:
        """Raises NotOwner, LeaseEnded."""
        if self._is_over:
            raise not_here(self.group_id)
        if self._check_lease is not None:
            self._check_lease()

    def end(self) -> None:
        """Nothing is answered from this memory any more."""
        self._is_over = True

    def was_lost(self) -> None:
        """The store has another owner of the group, or another epoch."""
        if not self._is_over:
            self._is_over = True
            self._lost(self.group_id)


def not_here(group_id: str) -> NotOwner:
    """For whoever asks here, while the group is owned elsewhere or by nobody."""
    return NotOwner(f"group {group_id} is not owned by this coordinator any more, so nothing was written")
