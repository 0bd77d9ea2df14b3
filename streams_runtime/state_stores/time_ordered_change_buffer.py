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

from collections import deque
from dataclasses import KW_ONLY, dataclass
from heapq import heapify, heappop, heappush
from typing import Any, ClassVar

from assignor.types import JAVA_LONG_MAX
from streams_runtime.common.errors import ChangelogOfAnotherKind
from streams_runtime.common.records import Headers, K, V
from streams_runtime.logs.base import RecordBatch
from streams_runtime.logs.record_limits import RecordLimits
from streams_runtime.serdes import Serde, serializer_of
from streams_runtime.state_stores.buffer_values import BufferValue, deserialize_buffer_value, serialize_buffer_value
from streams_runtime.state_stores.builders import SerdesStoreBuilder
from streams_runtime.state_stores.state_store import ChangeLogger, StoreContext
from streams_runtime.state_stores.thread_cache import ContextTuple, extra_bytes

_FORMAT = b"\3"
CHANGELOG_HEADERS: Headers = (("v", _FORMAT),)
"""The headers of each changelog record with a value. A deletion has no headers."""

_FIXED_BYTES = 8 + 8 + 8 + 4
"""Kafka counts these bytes for each change: its buffer time, and the timestamp, offset and partition of its context."""

_MOST_EXTRA_BYTES = 64
"""A changelog record without headers is larger than the size that Kafka counts by less than this number of bytes."""


class _Buffered:
    """A buffered change. `size`: its size in bytes, counted as in Kafka. `is_dirty`: True if the changelog does not
    have the change yet.
    """

    __slots__ = ("is_dirty", "size", "value")

    def __init__(self, value: BufferValue, size: int) -> None:
        self.value, self.size, self.is_dirty = value, size, False


class InMemoryTimeOrderedKeyValueChangeBuffer:
    """A store of buffered changes. See the docstring of the file.

    Only the task's thread uses the buffer, and queries cannot read it. `size_bytes`: the size of all buffered changes,
    counted as in Kafka.
    """

    logs_at_commit = True
    persistent = False

    def __init__(self, name: str, key_serde: Serde[Any], value_serde: Serde[Any]) -> None:
        self.name = name
        self.is_open, self.size_bytes = False, 0
        self._serialize_key, self._deserialize_key = serializer_of(key_serde), key_serde.deserialize
        self._serialize_value, self._deserialize_value = serializer_of(value_serde), value_serde.deserialize
        self._values: dict[bytes, _Buffered] = {}
        # The buffer times and keys of all buffered changes, as a heap. Empty after a restore, until the first `put`.
        self._order: list[tuple[int, bytes]] = []
        # The keys to log, in the order of their first changes after the last commit. A key that was evicted and put
        # again is here twice.
        self._dirty: deque[bytes] = deque()
        self._changes: ChangeLogger | None = None
        self._limits: RecordLimits | None = None

    # --- for the task

    def open(self, context: StoreContext) -> None:
        self.is_open = True
        self.rebind(context)

    def rebind(self, context: StoreContext) -> None:
        self._clock, self._changes, self._limits = context.clock, context.changes, None

    def restore(self, batch: RecordBatch) -> None:
        """Applies changelog records. Raises ChangelogOfAnotherKind for a record in a format other than 3."""
        self._order.clear()
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
                restored = deserialize_buffer_value(value)
                size = _size_of(key, restored)
                self._values[key] = _Buffered(restored, size)
                self.size_bytes += size

    def log_changes(self) -> None:
        """Sends the changes after the last commit to the changelog. After an error, the next call sends the rest."""
        changes, dirty, timestamp_ms = self._changes, self._dirty, self._clock.current_system_time_ms
        removed: set[bytes] = set()
        while changes is not None and dirty:
            buffered = self._values.get(key := dirty[0])
            if buffered is None and key not in removed:
                changes.log_change(self.name, key, None, timestamp_ms)
                removed.add(key)
            elif buffered is not None and buffered.is_dirty:
                data = serialize_buffer_value(buffered.value)
                changes.log_change(self.name, key, data, timestamp_ms, CHANGELOG_HEADERS)
                buffered.is_dirty = False
            dirty.popleft()

    def flush(self) -> None:
        """Does nothing, because the store is in memory."""

    def close(self) -> None:
        self.is_open, self.size_bytes = False, 0
        self._values.clear()
        self._dirty.clear()
        self._order.clear()

    # --- for the operator

    def __len__(self) -> int:
        return len(self._values)

    @property
    def min_time_ms(self) -> int:
        """The lowest buffer time; the greatest possible time if the buffer is empty."""
        return self._order[0][0] if self._order else JAVA_LONG_MAX

    def put(self, time_ms: int, key: Any, change: tuple[Any, Any], made_by: ContextTuple) -> None:
        """Buffers a change. `time_ms`: the buffer time if the key is not buffered yet. Raises the errors of the serdes.
        Raises an error if the changelog does not accept the change; the change is then not buffered.
        """
        new, old = change
        stored_key = self._serialize_key(key)
        new_bytes = None if new is None else self._serialize_value(new)
        prior = old_bytes = None if old is None else self._serialize_value(old)
        if len(self._order) < len(self._values):
            self._order = [(each.value[-1], key) for key, each in self._values.items()]
            heapify(self._order)
        buffered = self._values.get(stored_key)
        if buffered is not None:
            _, _, _, prior, time_ms = buffered.value
        value = (made_by, new_bytes, old_bytes, prior, time_ms)
        size = _size_of(stored_key, value)
        if self._changes is not None:
            if self._limits is None:
                self._limits = self._changes.limits_of(self.name)
            if made_by[1] or size + _MOST_EXTRA_BYTES > self._limits.max_bytes:
                data, timestamp_ms = serialize_buffer_value(value), self._clock.current_system_time_ms
                self._changes.check_change(self.name, stored_key, data, timestamp_ms, CHANGELOG_HEADERS)
        if buffered is None:
            buffered = self._values[stored_key] = _Buffered(value, size)
            heappush(self._order, (time_ms, stored_key))
            self.size_bytes += size
        else:
            self.size_bytes += size - buffered.size
            buffered.value, buffered.size = value, size
        if self._changes is not None and not buffered.is_dirty:
            buffered.is_dirty = True
            self._dirty.append(stored_key)

    def first(self) -> tuple[Any, tuple[Any, Any], ContextTuple]:
        """Returns the key, the change and the context of the first change. `put` must have been called after a restore.
        Raises the errors of the serdes.
        """
        _, key = self._order[0]
        context, new_bytes, old_bytes, _, _ = self._values[key].value
        new = None if new_bytes is None else self._deserialize_value(new_bytes)
        old = None if old_bytes is None else self._deserialize_value(old_bytes)
        return self._deserialize_key(key), (new, old), context

    def remove_first(self) -> None:
        """Removes the change that `first` returns."""
        _, key = heappop(self._order)
        buffered = self._values.pop(key)
        self.size_bytes -= buffered.size
        if self._changes is not None and not buffered.is_dirty:
            self._dirty.append(key)

    def prior_value(self, key: Any, if_not_buffered: Any) -> Any:
        """Returns the value that the key had before its first buffered change; None if it had no value."""
        buffered = self._values.get(self._serialize_key(key))
        if buffered is None:
            return if_not_buffered
        _, _, _, prior, _ = buffered.value
        return None if prior is None else self._deserialize_value(prior)


@dataclass(frozen=True)
class TimeOrderedChangeBufferBuilder(SerdesStoreBuilder[K, V]):
    """The builder of the buffer of a suppressed table. `SerdesStoreBuilder` describes the arguments. The buffer has no
    record cache, and is never persistent.
    """

    queryable: ClassVar[bool] = False
    is_buffer: ClassVar[bool] = True

    _: KW_ONLY
    persistent: bool = False

    def build(self) -> InMemoryTimeOrderedKeyValueChangeBuffer:
        return InMemoryTimeOrderedKeyValueChangeBuffer(self.name, self.key_serde, self.value_serde)


def _size_of(key: bytes, buffered: BufferValue) -> int:
    """Returns the number of bytes that Kafka counts for a key and its change. As in Kafka, an old value that equals the
    prior value is not counted.
    """
    context, new, old, prior, _ = buffered
    _, headers, partition, _, _, _ = context
    size = _FIXED_BYTES + len(key) + len(new or b"") + len(prior or b"")
    size += 0 if partition is None else len(partition[0])
    if headers:
        size += extra_bytes(headers, None)
    return size if old is None or old == prior else size + len(old)
