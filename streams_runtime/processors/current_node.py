"""Which processor of the user runs in a task right now, and the record that it, or an operator with a store, works on.

A record goes depth first: a node hands it on to one node below after the other, each with everything below that one.
So a node names its record before it uses a store, and a node that goes on after it has handed a record on puts its
own back. Source: `ProcessorContextImpl.forward`, `AbstractProcessorContext.currentNode`.
"""

from __future__ import annotations

from streams_runtime.common.records import Headers


class CurrentNode:
    """One for each task.

    `name`: the user's processor that runs, None when none does.
    `timestamp_ms`, `headers`: of the record that the node was given; -1 and () when there is none. Stores log changes
    with them.
    `checked_headers`: the headers that were checked last, so that each node need not check them again.
    """

    __slots__ = ("checked_headers", "headers", "name", "timestamp_ms")

    def __init__(self) -> None:
        self.name: str | None = None
        self.timestamp_ms = -1
        self.headers: Headers = ()
        self.checked_headers: Headers = ()

    def works_on(self, timestamp_ms: int, headers: Headers) -> None:
        """A node with a store was given this record."""
        self.timestamp_ms = timestamp_ms
        self.headers = headers

    def clear(self) -> None:
        """No node works on a record."""
        self.name = None
        self.timestamp_ms = -1
        self.headers = ()
