"""The buffer of a suppressed table. The buffer keeps the last change of each key until the table forwards the change.

Rules:
- The buffer is in memory, also for a persistent parent table. A restore reads the whole changelog.
- The key with the lowest buffer time comes first. Of two keys with the same buffer time, the key with the lower bytes
  comes first. A later change of a buffered key replaces the change, but keeps the key's place in the order.
- Each change has the context of the record that made it: timestamp, headers, topic, partition and offset.
- The changelog gets the changes at a commit, once for each key that was put or evicted after the last commit. A record
  of the changelog has the wall-clock time as its timestamp, and its header `v` has the number of the format.
- `buffer_values` has the format of a value of the changelog. The prior value of a key is its value before the first
  buffered change: the newest value that was forwarded.

Source: `InMemoryTimeOrderedKeyValueChangeBuffer`, `BufferValue`, `BufferKey`, `ProcessorRecordContext`.
Differs from Kafka: a restored key has the buffer time of its last record in the changelog. In Kafka, a restored key
keeps an earlier buffer time, so a restored task may forward the key too early. The formats 0 to 2, which Kafka wrote
before release 2.5.1, raise an error. If the context of a change has no topic, because a punctuation made the change,
the changelog gets an empty topic. In Kafka, such a change ends the thread.
"""

import heapq
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Generic, NamedTuple

from assignor.types import JAVA_LONG_MAX
from streams_runtime.common.errors import ChangelogOfAnotherKind
from streams_runtime.common.records import Headers, K, V
from streams_runtime.logs.base import RecordBatch
from streams_runtime.logs.record_limits import RecordLimits
from streams_runtime.serdes import Serde, serializer_of
from streams_runtime.state_stores.buffer_values import BufferValue, deserialize_buffer_value, serialize_buffer_value
from streams_runtime.state_stores.builders import SerdesStoreBuilder
from streams_runtime.state_stores.in_memory_stores import InMemoryStore
from streams_runtime.state_stores.state_store import ChangeLogger, StoreContext
from streams_runtime.state_stores.thread_cache import ContextTuple, extra_bytes

_FORMAT = b"\3"
CHANGELOG_HEADERS: Headers = (("v", _FORMAT),)
"""The headers of each changelog record with a value. A deletion has no headers."""

_FIXED_BYTES = 8 + 8 + 8 + 4
"""Kafka counts these bytes for each change: its buffer time, and the timestamp, offset and partition of its context."""

_MOST_EXTRA_BYTES = 64
"""A changelog record without headers is larger than the size that Kafka counts by less than this number of bytes."""


class _Buffered(NamedTuple):
    """`size`: the number of bytes that Kafka counts for the key and the change."""

    value: BufferValue
    size: int


Evicted = Callable[[Any, Any, Any, ContextTuple], None]
"""The type of a function (key, new value, old value, context) that gets a change when it leaves the buffer."""


class InMemoryTimeOrderedKeyValueChangeBuffer(InMemoryStore, Generic[K, V]):
    """A store of buffered changes. See the docstring of the file.

    Only the task's thread uses the buffer, and queries cannot read it. `size_bytes`: the size of all buffered changes,
    counted as in Kafka.
    """

    logs_at_commit = True

    def __init__(self, name: str, key_serde: Serde[K], value_serde: Serde[V]) -> None:
        super().__init__(name)
        self.size_bytes = 0
        self._serialize_key, self._deserialize_key = serializer_of(key_serde), key_serde.deserialize
        self._serialize_value, self._deserialize_value = serializer_of(value_serde), value_serde.deserialize
        self._values: dict[bytes, _Buffered] = {}
        # The buffer times and keys of all buffered changes, as a heap. None after a restore, until the first `put`.
        self._order: list[tuple[int, bytes]] | None = None
        self._dirty: dict[bytes, None] = {}  # the keys to log, in the order of their first changes
        self._changes: ChangeLogger | None = None
        self._limits: RecordLimits | None = None

    # --- for the task

    def rebind(self, context: StoreContext) -> None:
        self._clock, self._changes, self._limits = context.clock, context.changes, None

    def restore(self, batch: RecordBatch) -> None:
        """Applies changelog records. Raises ChangelogOfAnotherKind for a record in a format other than 3."""
        self._order = None
        headers = batch.headers or [()] * len(batch)
        last = dict(zip(batch.keys, zip(batch.values, headers, strict=True), strict=True))
        for key, (value, own_headers) in last.items():
            if key is None:
                continue
            replaced = self._values.pop(key, None)
            self.size_bytes -= 0 if replaced is None else replaced.size
            if value is not None:
                if dict(own_headers).get("v") != _FORMAT:
                    raise ChangelogOfAnotherKind(self.name, batch.partition, batch.offsets, key, "suppression buffer")
                restored = self._values[key] = _sized(key, deserialize_buffer_value(value))
                self.size_bytes += restored.size

    def log_changes(self) -> None:
        """Sends the changes after the last commit to the changelog. After an error, the next call sends the rest."""
        changes, dirty, timestamp_ms = self._changes, self._dirty, self._clock.current_system_time_ms
        if changes is None:
            return
        for key in list(dirty):
            buffered = self._values.get(key)
            if buffered is None:
                changes.log_change(self.name, key, None, timestamp_ms)
            else:
                changes.log_change(
                    self.name, key, serialize_buffer_value(buffered.value), timestamp_ms, CHANGELOG_HEADERS
                )
            del dirty[key]

    def flush(self) -> None:
        """Does nothing, because the store is in memory."""

    def close(self) -> None:
        self.is_open = False
        self.size_bytes = 0
        self._values.clear()
        self._dirty.clear()
        self._order = None

    # --- for the operator

    def __len__(self) -> int:
        return len(self._values)

    @property
    def min_time_ms(self) -> int:
        """The lowest buffer time; the greatest possible time if the buffer is empty."""
        return self._order[0][0] if self._order else JAVA_LONG_MAX

    def put(self, time_ms: int, key: K, change: tuple[V | None, V | None], made_by: ContextTuple) -> None:
        """Buffers a change. `time_ms`: the buffer time if the key is not buffered yet. Raises the errors of the serdes.
        Raises an error if the changelog does not accept the change; the change is then not buffered.
        """
        new, old = change
        stored_key = self._serialize_key(key)
        new_bytes = None if new is None else self._serialize_value(new)
        old_bytes = None if old is None else self._serialize_value(old)
        if self._order is None:
            self._order = [(buffered.value.time_ms, each) for each, buffered in self._values.items()]
            heapq.heapify(self._order)
        replaced = self._values.get(stored_key)
        prior = old_bytes
        if replaced is not None:
            time_ms, prior = replaced.value.time_ms, replaced.value.prior
        buffered = _sized(stored_key, BufferValue(made_by, new_bytes, old_bytes, prior, time_ms))
        if self._changes is not None:
            self._check(self._changes, stored_key, buffered)
            self._dirty[stored_key] = None
        self._values[stored_key] = buffered
        self.size_bytes += buffered.size
        if replaced is None:
            heapq.heappush(self._order, (time_ms, stored_key))
        else:
            self.size_bytes -= replaced.size

    def evict_first(self, evicted: Evicted) -> None:
        """Calls `evicted` with the first change, and then removes the change. If `evicted` raises an error, the change
        stays in the buffer.
        """
        assert self._order is not None, "`put` comes first"
        _, key = self._order[0]
        (context, new_bytes, old_bytes, _, _), size = self._values[key]
        new = None if new_bytes is None else self._deserialize_value(new_bytes)
        old = None if old_bytes is None else self._deserialize_value(old_bytes)
        evicted(self._deserialize_key(key), new, old, context)
        heapq.heappop(self._order)
        del self._values[key]
        self.size_bytes -= size
        if self._changes is not None:
            self._dirty[key] = None

    def prior_value(self, key: K, if_not_buffered: Any) -> Any:
        """Returns the value that the key had before its first buffered change; None if it had no value."""
        buffered = self._values.get(self._serialize_key(key))
        if buffered is None:
            return if_not_buffered
        prior = buffered.value.prior
        return None if prior is None else self._deserialize_value(prior)

    def _check(self, changes: ChangeLogger, key: bytes, buffered: _Buffered) -> None:
        """Raises an error if the changelog does not accept the change."""
        if self._limits is None:
            self._limits = changes.limits_of(self.name)
        headers = buffered.value.context[1]
        if headers or buffered.size + _MOST_EXTRA_BYTES > self._limits.max_bytes:
            timestamp_ms = self._clock.current_system_time_ms
            changes.check_change(
                self.name, key, serialize_buffer_value(buffered.value), timestamp_ms, CHANGELOG_HEADERS
            )


@dataclass(frozen=True)
class TimeOrderedChangeBufferBuilder(SerdesStoreBuilder[K, V]):
    """The builder of the buffer of a suppressed table. `SerdesStoreBuilder` describes the arguments. The buffer has no
    record cache, and is never persistent.
    """

    queryable: ClassVar[bool] = False
    is_buffer: ClassVar[bool] = True

    _: KW_ONLY
    persistent: bool = False

    def build(self) -> InMemoryTimeOrderedKeyValueChangeBuffer[K, V]:
        return InMemoryTimeOrderedKeyValueChangeBuffer(self.name, self.key_serde, self.value_serde)


def _sized(key: bytes, value: BufferValue) -> _Buffered:
    """Returns the change with its size. As in Kafka, an old value that equals the prior value is not counted."""
    context, new, old, prior, _ = value
    _, headers, partition, _, _, _ = context
    size = _FIXED_BYTES + len(key) + (0 if partition is None else len(partition[0]))
    if headers:
        size += extra_bytes(headers, None)
    if prior is not None:
        size += len(prior)
    if old is not None and old != prior:
        size += len(old)
    if new is not None:
        size += len(new)
    return _Buffered(value, size)
