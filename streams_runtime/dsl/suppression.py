"""Suppression of a table: the resulting table forwards fewer changes than its parent.

The operator puts each change into a buffer. It forwards a change when stream time is late enough, or when the buffer is
full. Stream time is the highest timestamp that the operator has received. So the operator forwards changes only while
it receives records. A forwarded change has the timestamp, the headers and the record metadata of the record that made
it. Other nodes read a buffered key as it was before its first buffered change.
Source: `Suppressed`, `KTableSuppressProcessorSupplier`, `KTableImpl.suppress`, `GraphGraceSearchUtil`.
Differs from Kafka: a join of a suppressed table with another table or a stream checks that the input topics of both
have the same number of partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from assignor.errors import IllegalArgumentError, StreamsError, TopologyError
from assignor.topology.builder import LOGGED
from assignor.topology.group_topology import ChangelogConfig
from assignor.types import JAVA_LONG_MAX
from streams_runtime.common.records import Headers, K, V, check_milliseconds
from streams_runtime.dsl.graph_nodes import GraphNode, TableNode
from streams_runtime.dsl.materialized import Materialized, StoreFactory
from streams_runtime.dsl.naming import checked_name
from streams_runtime.dsl.streams_graph import TableStage
from streams_runtime.dsl.table_operators import Getter, StoredTableOperator, TableOperator
from streams_runtime.processors.context import NodeContext, Receiver
from streams_runtime.state_stores.state_store import StoreBuilder
from streams_runtime.state_stores.time_ordered_change_buffer import (
    InMemoryTimeOrderedKeyValueChangeBuffer,
    TimeOrderedChangeBufferBuilder,
)

_PREFIX = "KTABLE-SUPPRESS-"
_NOT_BUFFERED = object()


@dataclass(frozen=True, slots=True)
class BufferConfig:
    """The limits of a suppression buffer, which is in memory.

    `max_records`, `max_bytes`: the largest number of keys and the largest size in bytes; None for no limit. Sizes are
    counted as in Kafka. `shut_down_when_full`: True to raise an error for the record that exceeds a limit, which ends
    the thread unless the processing handler continues; False to forward the earliest changes before their time.
    `changelog`: the configs of the buffer's changelog topic; None for a buffer without a changelog.
    """

    max_records: int | None = None
    max_bytes: int | None = None
    shut_down_when_full: bool = False
    changelog: ChangelogConfig | None = field(default=LOGGED)

    @property
    def emits_early(self) -> bool:
        """True if the buffer may have to forward a change before its time."""
        return not (self.shut_down_when_full or (self.max_records is None and self.max_bytes is None))


UNBOUNDED = BufferConfig()


@dataclass(frozen=True, slots=True)
class Suppressed:
    """The time at which a suppressed table forwards a change. `wait_ms`: None to wait until the window closes."""

    wait_ms: int | None
    buffer: BufferConfig

    @classmethod
    def until_window_closes(cls, buffer: BufferConfig = UNBOUNDED) -> Suppressed:
        """Forwards only the last result of each window, when stream time reaches the window's end plus the grace
        period. A window whose last result is None is left out. Raises IllegalArgumentError if the buffer could forward
        a result early.
        """
        if buffer.emits_early:
            raise IllegalArgumentError(
                "A buffer with limits would emit results before their window closes: give shut_down_when_full=True."
            )
        return cls(None, buffer)

    @classmethod
    def until_time_limit(cls, wait_ms: int, buffer: BufferConfig = UNBOUNDED) -> Suppressed:
        """Forwards the last change of a key when stream time has advanced by `wait_ms` milliseconds after the key's
        first buffered change. The last change of a removed key has the value None. Raises IllegalArgumentError for a
        time that is no whole number.
        """
        check_milliseconds(wait_ms=wait_ms)
        return cls(wait_ms, buffer)


@dataclass(frozen=True, slots=True)
class SuppressionBufferFactory(StoreFactory):
    """Makes the builder of a suppression buffer. The settings have no record cache, and are not persistent."""

    def builder(self) -> StoreBuilder:
        return TimeOrderedChangeBufferBuilder(**self.arguments())


def suppressed(table: TableStage[K, V], suppress: Suppressed, name: str | None) -> TableStage[K, V]:
    """Adds a suppressed table. As in Kafka, a name from the user uses up no number of the counter of generated names.
    The buffer has the name of the table with the suffix `-store`, or a generated name. Raises TopologyError if the
    table is versioned, or has no windows to wait for.
    """
    if table.operator.is_versioned:
        store = table.operator.store
        is_own = store is not None and store.settings.is_versioned
        note = "" if is_own else " (note that version semantics might be inherited from upstream)"
        raise TopologyError(f"Invalid topology: suppress() is only supported for non-versioned KTables{note}")
    naming = table.graph.naming
    node_name = naming.processor(_PREFIX) if name is None else checked_name(name)
    waits_for_window = suppress.wait_ms is None
    if suppress.wait_ms is None:
        suppress = replace(suppress, wait_ms=_window_grace_ms(table.node, []))
    store_name = naming.store(_PREFIX) if name is None else checked_name(f"{name}-store")
    settings = Materialized(persistent=False, changelog=suppress.buffer.changelog, caching=False)
    factory = SuppressionBufferFactory(store_name, table.key_serde, table.value_serde, settings)
    operator = KTableSuppress(table.operator, factory, suppress, waits_for_window=waits_for_window)
    return table.make_table(node_name, operator, table.key_serde, table.value_serde)


def _window_grace_ms(node: GraphNode, path: list[str]) -> int:
    """Returns the time between the end of a window and the moment when it closes. If the nodes above have different
    windows, returns the longest time. `path`: the names of the nodes below, from top to bottom.
    """
    if isinstance(node, TableNode) and node.operator.window_grace_ms is not None:
        return node.operator.window_grace_ms
    path = [node.name, *path]
    if not node.parents:
        raise TopologyError(
            f"Invalid topology: Window close time is only defined for windowed computations. Got [{'->'.join(path)}]."
        )
    return max(_window_grace_ms(parent, path) for parent in node.parents)


class KTableSuppress(StoredTableOperator):
    """The operator of a suppressed table. `waits_for_window`: True if a change waits for the end of its key's window;
    False if it waits for a time after its own timestamp.
    """

    def __init__(
        self, parent: TableOperator, store: SuppressionBufferFactory, suppress: Suppressed, *, waits_for_window: bool
    ) -> None:
        super().__init__(store)
        self.parent = parent
        self.suppress = suppress
        self.waits_for_window = waits_for_window
        parent.send_old_values(keep_store=True)  # the buffer keeps the value that was forwarded before

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        buffer: InMemoryTimeOrderedKeyValueChangeBuffer = context.state_store(self.store.name)
        wait_ms, waits_for_window, current = self.suppress.wait_ms, self.waits_for_window, context.current
        assert wait_ms is not None
        limits = self.suppress.buffer
        max_records = JAVA_LONG_MAX if limits.max_records is None else limits.max_records
        max_bytes = JAVA_LONG_MAX if limits.max_bytes is None else limits.max_bytes
        is_limited = limits.max_records is not None or limits.max_bytes is not None
        forward, record_context = context.delayed_forwarder(child), context.record_context

        def evict_first() -> None:
            key, change, made_by = buffer.first()
            # a window that waits for its end was never forwarded, so nothing below has to be removed
            if change[0] is not None or not waits_for_window:
                forward(key, change, made_by)
            buffer.remove_first()  # if `forward` raises an error, the change stays in the buffer

        def suppress(key: Any, change: Any, timestamp_ms: int, headers: Headers) -> None:
            if timestamp_ms > context.stream_time_ms:
                context.stream_time_ms = timestamp_ms
            current.timestamp_ms, current.headers = timestamp_ms, headers
            buffer.put(key.end_ms if waits_for_window else timestamp_ms, key, change, record_context())
            due_ms = context.stream_time_ms - wait_ms
            while buffer.min_time_ms <= due_ms:
                evict_first()
            while is_limited and len(buffer) and (len(buffer) > max_records or buffer.size_bytes > max_bytes):
                if limits.shut_down_when_full:
                    raise StreamsError(
                        f"{context.name} buffer exceeded its max capacity. Currently [{len(buffer)}/{max_records}] "
                        f"records and [{buffer.size_bytes}/{max_bytes}] bytes."
                    )
                evict_first()

        return suppress

    def view(self) -> tuple[str, ...]:
        return (*super().view(), *self.parent.view())

    def getter(self, context: NodeContext, *, flushed: bool = False) -> Getter:
        """See `TableOperator.getter`. As in Kafka, the timestamp of a buffered key is -1, because the buffer does not
        have the timestamp of the prior value.
        """
        buffer: InMemoryTimeOrderedKeyValueChangeBuffer = context.state_store(self.store.name)
        get_parent = self.parent.getter(context, flushed=flushed)

        def get(key: Any) -> tuple[int, Any] | None:
            prior = buffer.prior_value(key, _NOT_BUFFERED)
            if prior is _NOT_BUFFERED:
                return get_parent(key)
            return None if prior is None else (-1, prior)

        return get
