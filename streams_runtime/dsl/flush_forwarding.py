"""How the node of a table forwards when its store has a record cache: not for each change, but when that is flushed.

Source: `TimestampedTupleForwarder`, `TimestampedCacheFlushListener`.
"""

from __future__ import annotations

from typing import Any, cast

from streams_runtime.dsl.change import Change
from streams_runtime.processors.api import ProcessorContext
from streams_runtime.processors.context import NodeContext
from streams_runtime.records import Record, RecordContext
from streams_runtime.state_stores.base import ValueAndTimestamp


def forwards_when_flushed(context: ProcessorContext, store: Any, *, sends_old_values: bool) -> bool:
    """Whether the store forwards its changes as this node from now on; then the node itself must not.

    A store without a cache does not, and neither does one of somebody's own kind.
    """
    set_flush_listener = getattr(store, "set_flush_listener", None)
    if set_flush_listener is None:
        return False
    forward = cast("NodeContext", context).forward_flushed

    def flushed(
        key: Any, new: ValueAndTimestamp[Any] | None, old: ValueAndTimestamp[Any] | None, made_by: RecordContext
    ) -> None:
        timestamp_ms, headers, _ = made_by
        value = None
        if new is not None:
            value, timestamp_ms = new
        forward(Record(key, Change(value, None if old is None else old.value), timestamp_ms, headers))

    return bool(set_flush_listener(flushed, sends_old_values=sends_old_values))
