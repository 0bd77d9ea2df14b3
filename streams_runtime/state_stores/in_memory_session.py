"""A session store of bytes, which keeps its content in memory until `close`.

Only the task's thread may write to a store. Any thread may read. Source: `InMemorySessionStore`.
Differs from Kafka: expired sessions are removed in whole segments, as on disk, and not at every call.
"""

from streams_runtime.state_stores.in_memory_stores import ExpiringInMemoryStore
from streams_runtime.state_stores.session_keys import SessionRange, end_of, is_session_key, session_bounds
from streams_runtime.state_stores.state_store import Entries


class InMemorySessionStore(ExpiringInMemoryStore[bytes]):
    """A `SessionBytesStore` with two views of the sessions: the sessions of each key, and the sessions of each end."""

    kind = "session"

    def __init__(self, name: str, retention_ms: int) -> None:
        super().__init__(name, retention_ms)
        self._by_key: dict[bytes, dict[bytes, bytes]] = {}

    def put(self, session_key: bytes, value: bytes | None) -> None:
        self._require_open()
        if not self._observe(end_of(session_key)):
            self._expired(self.name)
        elif value is None:
            self.remove(session_key)
        else:
            self._buckets.find_or_add(end_of(session_key))[session_key] = value
            self._by_key.setdefault(session_bounds(session_key)[0], {})[session_key] = value

    def remove(self, session_key: bytes) -> None:
        self._require_open()
        end_ms = end_of(session_key)
        bucket = self._buckets.find(end_ms)
        if bucket is None or bucket.pop(session_key, None) is None:
            return
        if not bucket:
            self._buckets.remove(end_ms)
        self._remove_from_key(session_key)

    def close(self) -> None:
        super().close()
        self._by_key = {}

    def _is_key(self, key: bytes) -> bool:
        return is_session_key(key)

    def _restore(self, key: bytes, value: bytes | None) -> None:
        if self._observe(end_of(key)):
            self.put(key, value)

    def _drop_before(self, time_ms: int) -> None:
        for _, bucket in self._buckets.between(0, time_ms - 1):
            for session_key in bucket:
                self._remove_from_key(session_key)
        super()._drop_before(time_ms)

    def fetch_session(self, session_key: bytes) -> bytes | None:
        by_end = self._buckets
        self._require_open()
        end_ms = end_of(session_key)
        bucket = by_end.find(end_ms) if end_ms >= self._retention.earliest_readable_ms else None
        return None if bucket is None else bucket.get(session_key)

    def find_sessions(self, wanted: SessionRange, *, reverse: bool = False) -> Entries:
        """Sorts the sessions of several keys by end, then by key."""
        by_key, by_end = self._by_key, self._buckets
        self._require_open()
        wanted = wanted.from_end(self._retention.earliest_readable_ms)
        if (key := wanted.one_key) is not None:
            sessions = sorted(by_key.get(key, {}).copy().items())
        else:
            buckets = by_end.between(wanted.earliest_end_ms, self._retention.observed_ms)
            sessions = [entry for _, bucket in buckets for entry in sorted(bucket.copy().items())]
        found = list(wanted.among(sessions))
        return self._while_open(by_end, found[::-1] if reverse else found)

    def find_sessions_by_end(self, earliest_end_ms: int, latest_end_ms: int) -> Entries:
        """Sorts sessions with equal ends by key."""
        by_end = self._buckets
        buckets = self._readable(by_end, earliest_end_ms, latest_end_ms)
        return self._while_open(by_end, (entry for _, bucket in buckets for entry in sorted(bucket.copy().items())))

    def _remove_from_key(self, session_key: bytes) -> None:
        key = session_bounds(session_key)[0]
        sessions = self._by_key[key]
        del sessions[session_key]
        if not sessions:
            del self._by_key[key]
