"""What event streams of views of recorded rebalances compare: whether there is another one to show."""

from __future__ import annotations

from coordinator_api.group.image import GroupImage


def rebalances_digest(image: GroupImage) -> str:
    """Of the last rebalance that ended, and of the one that waits for approval. The generation alone would not do: it
    begins before its rebalance is computed and recorded.
    """
    last = image.last_rebalance
    ended = "none" if last is None else f"{last.generation_id}-{last.end.outcome}"
    return ended if image.held is None else f"{ended}-{image.generation_id}-held"
