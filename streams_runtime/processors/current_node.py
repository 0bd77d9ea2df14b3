"""Which node of a task runs right now, and which node an error came from.

A record goes depth first: a node calls its children one after the other, each with everything below it. Before each
call the caller writes the child's name into the task's one `CurrentNode`. When an error passes, the node it came from
is kept, because outer nodes move the current node back to themselves (they may catch the error and go on).
Source: `ProcessorContextImpl.forward`, `AbstractProcessorContext.currentNode`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streams_runtime.common.records import Headers, Record

Child = tuple[str, Callable[[Record[Any, Any]], None]]
"""A node's name, and the function that takes its records."""


class CurrentNode:
    """`name`: the node that runs, None outside of processing.

    `timestamp_ms`: the timestamp of the record that this node was given, -1 when there is none.
    `headers`: those of that record, if this node or one above it has a store.
    `checked_headers`: the headers that were checked last, so that each node need not check them again.
    `failed_at`: the node that the latest error came from, empty when there is no error.
    """

    __slots__ = ("_error", "checked_headers", "failed_at", "headers", "name", "timestamp_ms")

    def __init__(self) -> None:
        self.name: str | None = None
        self.timestamp_ms = -1
        self.headers: Headers = ()
        self.checked_headers: Headers = ()
        self._error: BaseException | None = None
        self.failed_at = ""

    def failed(self, error: BaseException, back_to: str | None) -> None:
        """Note an error on its way out. Only the innermost caller's note counts: it knows where the error came from."""
        if self._error is not error:
            self._error = error
            self.failed_at = self.name or ""
        self.name = back_to

    def running_or_failed(self) -> str:
        """The node that runs, or the one that the latest error came from. Empty when there is neither."""
        return self.name if self.name is not None else self.failed_at

    def forget(self) -> None:
        """Something new begins. This also releases the error, which would keep whole stack frames alive."""
        self._error = None
        self.failed_at = ""
