"""The session store that processors use. It is the outer layer of a store of bytes, and converts objects to bytes.
Source: `MeteredSessionStore`.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from assignor.types import JAVA_LONG_MAX
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.records import K, V
from streams_runtime.state_stores.caching import CachingSessionStore
from streams_runtime.state_stores.session_keys import SESSION_SUFFIX_BYTES, SessionRange, session_bounds, session_key
from streams_runtime.state_stores.state_store import Entries, SerdesStore, SessionBytesStore, Windowed
from streams_runtime.state_stores.value_and_timestamp import EntryAccess


class SessionAccess(NamedTuple):
    """The functions with which operators of the DSL read and write a session store. As with `EntryAccess`, only the
    task's thread may call the functions.

    `entries`: the functions for one session. The arguments of `stored_key_of` are the bytes of the key, the start and
    the end. `read` returns the timestamp 0, because sessions have no timestamps. `serialize_key`: converts a key to
    bytes. `find`, `remove`: as `find_sessions` and `remove` of `SessionBytesStore`.
    """

    entries: EntryAccess
    serialize_key: Callable[[Any], bytes]
    find: Callable[[SessionRange], Entries]
    remove: Callable[[bytes], None]


class SessionStore(SerdesStore[SessionBytesStore, K, V]):
    """A session store of objects. A session includes its start and its end. Ranges include both bounds. Sessions that
    end before stream time minus retention cannot be read. A `put` of None deletes the session. If `reverse` is True,
    the order is descending. If a key bound is None, the range is open at this end. Raises StreamsRuntimeError if a key
    is None, or if a session starts before 1970 or ends before its start. Raises the errors of serdes.
    """

    def session_of(self, session_key: bytes) -> Windowed[K]:
        """Deserializes a session key."""
        key, start_ms, end_ms = session_bounds(session_key)
        return Windowed(self._deserialize_key(key), start_ms, end_ms)

    def put(self, session: Windowed[K], value: V | None) -> None:
        self.inner.put(self._session_key(*session), None if value is None else self._serialize_value(value))

    def remove(self, session: Windowed[K]) -> None:
        self.inner.remove(self._session_key(*session))

    def fetch_session(self, key: K, start_ms: int, end_ms: int) -> V | None:
        stored_key = self._serialized_key(key)
        if not 0 <= start_ms <= end_ms <= JAVA_LONG_MAX:
            return None
        stored = self.inner.fetch_session(session_key(stored_key, start_ms, end_ms))
        return None if stored is None else self._deserialize_value(stored)

    def fetch(self, key: K, *, reverse: bool = False) -> Iterator[tuple[Windowed[K], V]]:
        """Returns all sessions of a key, sorted by time."""
        return self.find_sessions(key, 0, JAVA_LONG_MAX, reverse=reverse)

    def fetch_keys(
        self, from_key: K | None, to_key: K | None, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed[K], V]]:
        """Returns all sessions of a range of keys."""
        first, last = (None if key is None else self._serialize_key(key) for key in (from_key, to_key))
        wanted = SessionRange(first, last, 0, JAVA_LONG_MAX)
        return self._deserialized(self.inner.find_sessions(wanted, reverse=reverse))

    def find_sessions(
        self, key: K, earliest_end_ms: int, latest_start_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed[K], V]]:
        """Returns the sessions of a key that end at `earliest_end_ms` or later, and start at `latest_start_ms` or
        earlier.
        """
        stored_key = self._serialized_key(key)
        wanted = SessionRange(stored_key, stored_key, earliest_end_ms, latest_start_ms)
        return self._deserialized(self.inner.find_sessions(wanted, reverse=reverse))

    def find_sessions_by_end(self, earliest_end_ms: int, latest_end_ms: int) -> Iterator[tuple[Windowed[K], V]]:
        """Returns the sessions of all keys that end between the bounds, sorted by end."""
        return self._deserialized(self.inner.find_sessions_by_end(earliest_end_ms, latest_end_ms))

    def session_access(self) -> SessionAccess:
        inner, deserialize, serialize = self.inner, self._deserialize_value, self._serialize_value
        entries = EntryAccess(
            session_key,
            inner.fetch_session,
            lambda stored_key, stored, _timestamp_ms: inner.put(stored_key, stored),
            lambda stored: (0, deserialize(stored)),
            lambda _timestamp_ms, value: serialize(value),  # type: ignore[arg-type,return-value]  # bytes for a value
            self.session_of,
        )
        if isinstance(inner, CachingSessionStore) and inner.cache is not None:
            inner.cache.index_by_record_key(SESSION_SUFFIX_BYTES)
            entries = entries._replace(put=inner.cache.put, set_flush_listener=inner.cache.set_flush_listener)
        return SessionAccess(entries, self._serialize_key, inner.find_sessions, inner.remove)

    def _session_key(self, key: K, start_ms: int, end_ms: int) -> bytes:
        stored_key = self._serialized_key(key)
        if not 0 <= start_ms <= end_ms <= JAVA_LONG_MAX:
            raise StreamsRuntimeError(f"store {self.name}: no session can be from {start_ms!r} to {end_ms!r} ms")
        return session_key(stored_key, start_ms, end_ms)

    def _deserialized(self, entries: Entries) -> Iterator[tuple[Windowed[K], V]]:
        session_of, deserialize = self.session_of, self._deserialize_value
        return ((session_of(key), deserialize(value)) for key, value in entries)
