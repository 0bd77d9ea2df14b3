"""What a member is waiting for."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """PREPARING: its holder to get ready for a rebalance. JOINING: the join. AWAITING: word that its assignment is
    there. FETCHING: the assignment. CHANGING: its holder to change its tasks. HOLDING: news. LOSING, CLOSING: its
    holder to drop or to close everything. LEAVING: the last call.
    """

    NEW = "new"
    PREPARING = "preparing"
    JOINING = "joining"
    AWAITING = "awaiting"
    FETCHING = "fetching"
    CHANGING = "changing"
    HOLDING = "holding"
    LOSING = "losing"
    CLOSING = "closing"
    LEAVING = "leaving"
    ENDED = "ended"
