"""A session store of bytes, which keeps its content in memory until `close`.

Only the task's thread may write to a store. Any thread may read. Source: `InMemorySessionStore`.
Differs from Kafka: expired sessions are removed in whole segments, as on disk, and not at every call.
"""

from collections.abc import Callable, Iterable

from streams_runtime.common.errors import ChangelogOfAnotherKind
from streams_runtime.logs.base import RecordBatch
from streams_runtime.state_stores.in_memory_stores import InMemoryStore, WindowBuckets
from streams_runtime.state_stores.session_keys import SessionRange, end_of, is_session_key, session_bounds
from streams_runtime.state_stores.state_store import Entries, StoreContext, ignore_expired
from streams_runtime.state_stores.window_keys import WindowRetention


class InMemorySessionStore(InMemoryStore):
    """A `SessionBytesStore` with two views of the sessions: the sessions of each key, and the sessions of each end."""

    def __init__(self, name: str, retention_ms: int) -> None:
        super().__init__(name)
        self._retention = WindowRetention(retention_ms)
        self._expired: Callable[[str], None] = ignore_expired
        self._forget()

    def _forget(self) -> None:
        self._by_key: dict[bytes, dict[bytes, bytes]] = {}
        self._by_end: WindowBuckets[bytes] = WindowBuckets()

    def rebind(self, context: StoreContext) -> None:
        self._expired = context.expired

    def put(self, session_key: bytes, value: bytes | None) -> None:
        self._require_open()
        if not self._observe(end_of(session_key)):
            self._expired(self.name)
        elif value is None:
            self.remove(session_key)
        else:
            self._by_end.find_or_add(end_of(session_key))[session_key] = value
            self._by_key.setdefault(session_bounds(session_key)[0], {})[session_key] = value

    def remove(self, session_key: bytes) -> None:
        self._require_open()
        end_ms = end_of(session_key)
        bucket = self._by_end.find(end_ms)
        if bucket is None or bucket.pop(session_key, None) is None:
            return
        if not bucket:
            self._by_end.remove(end_ms)
        self._remove_from_key(session_key)

    def restore(self, batch: RecordBatch) -> None:
        """Writes changelog records to the store. Raises ChangelogOfAnotherKind if a key is not a session key."""
        self._require_open()
        for key, value in zip(batch.keys, batch.values, strict=True):
            if key is None:
                continue
            if not is_session_key(key):
                raise ChangelogOfAnotherKind(self.name, batch.partition, batch.offsets, key, "session")
            if self._observe(end_of(key)):
                self.put(key, value)

    def close(self) -> None:
        """Drops the content. Open iterators raise InvalidStateStore."""
        self.is_open = False
        self._forget()
        self._retention = WindowRetention(self._retention.retention_ms)

    def fetch_session(self, session_key: bytes) -> bytes | None:
        by_end = self._by_end
        self._require_open()
        end_ms = end_of(session_key)
        bucket = by_end.find(end_ms) if end_ms >= self._retention.earliest_readable_ms else None
        return None if bucket is None else bucket.get(session_key)

    def find_sessions(self, wanted: SessionRange, *, reverse: bool = False) -> Entries:
        """Sorts the sessions of several keys by end, then by key."""
        by_key, by_end = self._by_key, self._by_end
        self._require_open()
        if wanted.earliest_end_ms < self._retention.earliest_readable_ms:
            wanted = wanted._replace(earliest_end_ms=self._retention.earliest_readable_ms)
        if (key := wanted.one_key) is not None:
            sessions = sorted(by_key.get(key, {}).copy().items())
        else:
            buckets = by_end.between(wanted.earliest_end_ms, self._retention.observed_ms)
            sessions = [entry for _, bucket in buckets for entry in sorted(bucket.copy().items())]
        found = [entry for entry in sessions if wanted.includes(entry[0])]
        return self._while_open(by_end, found[::-1] if reverse else found)

    def find_sessions_by_end(self, earliest_end_ms: int, latest_end_ms: int) -> Entries:
        """Sorts sessions with equal ends by key."""
        by_end = self._by_end
        self._require_open()
        buckets = by_end.between(max(earliest_end_ms, self._retention.earliest_readable_ms), latest_end_ms)
        return self._while_open(by_end, (entry for _, bucket in buckets for entry in sorted(bucket.copy().items())))

    def _observe(self, end_ms: int) -> bool:
        """Advances observed stream time, and drops the segments that expire. Returns True if a session with this end
        can be read.
        """
        retention = self._retention
        if end_ms > retention.observed_ms and retention.observe(end_ms):
            first_live_ms = retention.first_live_segment * retention.segment_interval_ms
            for _, bucket in self._by_end.between(0, first_live_ms - 1):
                for session_key in bucket:
                    self._remove_from_key(session_key)
            self._by_end.remove_before(first_live_ms)
        return end_ms >= retention.earliest_readable_ms

    def _remove_from_key(self, session_key: bytes) -> None:
        key = session_bounds(session_key)[0]
        sessions = self._by_key[key]
        del sessions[session_key]
        if not sessions:
            del self._by_key[key]

    def _while_open(self, by_end: WindowBuckets[bytes], entries: Iterable[tuple[bytes, bytes]]) -> Entries:
        for entry in entries:
            if by_end is not self._by_end:  # the store was closed meanwhile
                raise self._not_open()
            yield entry
