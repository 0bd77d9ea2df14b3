"""How the node of a table forwards when its store has a record cache: not for each change, but when that is flushed.

Source: `TimestampedTupleForwarder`, `TimestampedCacheFlushListener`.
"""

from __future__ import annotations

from typing import Any

from streams_runtime.common.records import RecordContext
from streams_runtime.processors.context import NodeContext, Receiver
from streams_runtime.state_stores.base import ValueAndTimestamp


def forwards_when_flushed(store: Any, child: Receiver, task: NodeContext, *, sends_old_values: bool) -> bool:
    """Whether the store hands its changes to `child` as this node from now on; then the node itself must not.

    A store without a cache does not, and neither does one of somebody's own kind.
    """
    set_flush_listener = getattr(store, "set_flush_listener", None)
    if set_flush_listener is None:
        return False
    hand_on, works_on = task.guarded(child), task.current.works_on

    def flushed(
        key: Any, new: ValueAndTimestamp[Any] | None, old: ValueAndTimestamp[Any] | None, made_by: RecordContext
    ) -> None:
        if not task.is_open:  # the nodes below are closed: the change is only written
            return
        value, timestamp_ms = (None, made_by.timestamp_ms) if new is None else new
        hand_on(key, (value, None if old is None else old.value), timestamp_ms, made_by.headers)
        works_on(made_by.timestamp_ms, made_by.headers)  # the store writes the change now

    held_back: bool = set_flush_listener(flushed, sends_old_values=sends_old_values)
    return held_back
