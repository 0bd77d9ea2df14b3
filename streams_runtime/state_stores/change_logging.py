"""The layer of a store that sends changes to the changelog. It first puts a change into the store below.

Rules: if the changelog does not accept a change, the change is refused before it is put into the store. So the store
and its changelog have the same content even if an error handler returns CONTINUE. A changelog record has the timestamp
of the record that made the change. In a timestamped store, the changelog record of a value has the timestamp of the
value. A standby sends no changes to the changelog, and neither does a store that uses a source topic as its changelog.
A restore sends no changes to the changelog either.

Source: `ChangeLoggingKeyValueBytesStore`, `ChangeLoggingTimestampedKeyValueBytesStore`,
`ChangeLoggingWindowBytesStore`, `ChangeLoggingTimestampedWindowBytesStore`, `ChangeLoggingSessionBytesStore`.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from streams_runtime.common.records import Headers
from streams_runtime.logs.record_limits import NO_TIMESTAMP_CHECKS, BrokerChecks, RecordLimits
from streams_runtime.state_stores.state_store import (
    ChangeLogger,
    Inner,
    KeyValueBytesStore,
    NoRecords,
    RecordClock,
    SessionBytesStore,
    StoreContext,
    WindowBytesStore,
    WrappedStateStore,
)
from streams_runtime.state_stores.value_and_timestamp import TIMESTAMP_BYTES, unpack_timestamp
from streams_runtime.state_stores.window_keys import suffix_of


class _NotLogged:
    def limits_of(self, store: str) -> RecordLimits:
        return RecordLimits(max_bytes=sys.maxsize, compacts=False)

    def check_change(
        self, store: str, key: bytes, value: bytes | None, timestamp_ms: int, headers: Headers = ()
    ) -> None:
        """Accepts every change, because there is no changelog."""

    def log_change(self, store: str, key: bytes, value: bytes | None, timestamp_ms: int, headers: Headers = ()) -> None:
        """Does nothing."""


_NOT_LOGGED: ChangeLogger = _NotLogged()


class LoggedStore(WrappedStateStore[Inner]):
    """The base of all stores that log changes. The methods that read are those of the store below.

    A record cache can skip the check of most changes, because the changelog accepts every change within two limits. The
    key and value together must have at most `always_accepted_bytes`. The timestamp must be at most
    `timestamp_checks.accepted_to_ms`.
    """

    def __init__(self, inner: Inner) -> None:
        super().__init__(inner)
        # each change needs the name, and the property `name` of `inner` is slow: it calls each layer below
        self._name = inner.name
        self._use(_NOT_LOGGED, NoRecords())

    def _bind(self, context: StoreContext) -> None:
        self._use(_NOT_LOGGED if context.changes is None else context.changes, context.clock)

    def _use(self, changes: ChangeLogger, clock: RecordClock) -> None:
        self._clock = clock
        self._changes = changes
        self._log_change = changes.log_change
        self._limits: RecordLimits | None = None
        # With the limit -1, a record cache calls `check` for each change. The first call of `check` sets the real
        # limits.
        self.always_accepted_bytes = -1
        self.timestamp_checks: BrokerChecks = NO_TIMESTAMP_CHECKS

    def committed(self) -> Any:
        return self.inner.committed()  # type: ignore[attr-defined]

    def check_logged(self, key: bytes, value: bytes | None, timestamp_ms: int) -> None:
        """Raises an error if the changelog does not accept a record."""
        if self._limits is None:  # read the limits at the first change, because a standby never needs them
            self._limits = limits = self._changes.limits_of(self._name)
            self.always_accepted_bytes, self.timestamp_checks = limits.max_bytes, limits.checks
        if not self._limits.takes_unchecked(key, value, timestamp_ms):
            self._changes.check_change(self._name, key, value, timestamp_ms)


class ChangeLoggingStore(LoggedStore[Inner], ABC):
    """The base of the stores that log changes and that may have a record cache. `timestamped`: True if each value
    begins with its timestamp.
    """

    read: Callable[[bytes], bytes | None]
    """Returns the value of a key. The argument is the key in the form that the changelog contains."""

    def __init__(self, inner: Inner, *, timestamped: bool = False) -> None:
        super().__init__(inner)
        self._timestamped = timestamped

    def check(self, key: bytes, value: bytes | None) -> None:
        """Raises an error if the changelog does not accept a change.

        `key`: the key in the form that the changelog contains. `value`: the value in the form that the store contains.
        """
        self._checked(key, value)

    @abstractmethod
    def put_checked(self, key: bytes, value: bytes | None, record_ms: int) -> None:
        """Puts and logs a change that `check` has accepted. Must not be called for a store with duplicates.

        `key`: the key in the form that the changelog contains. `value`: the value in the form that the store contains.
        `record_ms`: the timestamp of the record that made the change.
        """

    def _checked(self, key: bytes, value: bytes | None) -> tuple[bytes | None, int]:
        """Returns the value and the timestamp of the changelog record of a change. Raises the errors of `check`."""
        logged, timestamp_ms = self._logged(value, self._clock.record_timestamp_ms)
        self.check_logged(key, logged, timestamp_ms)
        return logged, timestamp_ms

    def _logged(self, value: bytes | None, record_ms: int) -> tuple[bytes | None, int]:
        """For a stored value, returns the value and the timestamp of its changelog record."""
        if value is None or not self._timestamped:
            return value, record_ms
        return value[TIMESTAMP_BYTES:], unpack_timestamp(value)[0]


class ChangeLoggingKeyValueBytesStore(ChangeLoggingStore[KeyValueBytesStore]):
    """A `KeyValueBytesStore` that logs its changes."""

    def __init__(self, inner: KeyValueBytesStore, *, timestamped: bool = False) -> None:
        super().__init__(inner, timestamped=timestamped)
        self.read = self.get = inner.get
        self.scan, self.approximate_num_entries = inner.scan, inner.approximate_num_entries

    def put(self, key: bytes, value: bytes | None) -> None:
        logged, timestamp_ms = self._checked(key, value)
        self.inner.put(key, value)
        self._log_change(self._name, key, logged, timestamp_ms)

    def put_all(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        for key, value in entries:
            self.check(key, value)
        self.inner.put_all(entries)
        for key, value in entries:
            self._log_change(self._name, key, *self._logged(value, self._clock.record_timestamp_ms))

    def put_checked(self, key: bytes, value: bytes | None, record_ms: int) -> None:
        logged, timestamp_ms = self._logged(value, record_ms)
        self.inner.put(key, value)
        self._log_change(self._name, key, logged, timestamp_ms)


class ChangeLoggingWindowBytesStore(ChangeLoggingStore[WindowBytesStore]):
    """A `WindowBytesStore` that logs its changes. As in Kafka, a put into an expired window is also logged. In a store
    with duplicates, a put of None deletes nothing, and a deletion with an unused sequence number is logged.
    """

    def __init__(self, inner: WindowBytesStore, *, timestamped: bool = False) -> None:
        super().__init__(inner, timestamped=timestamped)
        self.fetch, self.fetch_range, self.fetch_all = inner.fetch, inner.fetch_range, inner.fetch_all

    def put(self, key: bytes, value: bytes | None, start_ms: int) -> bytes:
        logged, timestamp_ms = self._checked(key, value)
        logged_key = self.inner.put(key, value, start_ms)
        self._log_change(self._name, logged_key, logged, timestamp_ms)
        return logged_key

    def put_checked(self, key: bytes, value: bytes | None, record_ms: int) -> None:
        logged, timestamp_ms = self._logged(value, record_ms)
        self.inner.put(key, value, suffix_of(key)[0])
        self._log_change(self._name, key, logged, timestamp_ms)

    def read(self, key: bytes) -> bytes | None:
        return self.inner.fetch(key, suffix_of(key)[0])


class ChangeLoggingSessionBytesStore(ChangeLoggingStore[SessionBytesStore]):
    """A `SessionBytesStore` that logs its changes. As in Kafka, a put of an expired session is also logged."""

    def __init__(self, inner: SessionBytesStore) -> None:
        super().__init__(inner)
        self.read = self.fetch_session = inner.fetch_session
        self.find_sessions, self.find_sessions_by_end = inner.find_sessions, inner.find_sessions_by_end

    def put(self, session_key: bytes, value: bytes | None) -> None:
        _, record_ms = self._checked(session_key, value)
        self.inner.put(session_key, value)
        self._log_change(self._name, session_key, value, record_ms)

    def put_checked(self, key: bytes, value: bytes | None, record_ms: int) -> None:
        self.inner.put(key, value)
        self._log_change(self._name, key, value, record_ms)

    def remove(self, session_key: bytes) -> None:
        _, record_ms = self._checked(session_key, None)
        self.inner.remove(session_key)
        self._log_change(self._name, session_key, None, record_ms)
