"""Stores of bytes that put each change into the store below, then send it to the changelog.

A change that the changelog does not accept is refused before the store has it. So store and changelog stay equal when
an error handler answers CONTINUE. A change in the changelog has the timestamp of the record that is being processed; in
a timestamped store it has the timestamp of its value, except for a deletion. Without a changelog (in a standby, or if a
source topic serves as changelog) nothing is sent. A restore is never logged. Source: `ChangeLoggingKeyValueBytesStore`,
`ChangeLoggingTimestampedKeyValueBytesStore`, `ChangeLoggingWindowBytesStore`,
`ChangeLoggingTimestampedWindowBytesStore`.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator

from streams_runtime.logs.record_limits import NO_TIMESTAMP_CHECKS, BrokerChecks, RecordLimits
from streams_runtime.state_stores.base import (
    ChangeLogger,
    Entries,
    Inner,
    KeyValueBytesStore,
    NoRecords,
    RecordClock,
    StoreContext,
    WindowBytesStore,
    WrappedStateStore,
)
from streams_runtime.state_stores.value_and_timestamp import TIMESTAMP_BYTES, unpack_timestamp
from streams_runtime.state_stores.window_keys import SUFFIX_BYTES, suffix_of, window_key


class _NotLogged:
    def limits_of(self, store: str) -> RecordLimits:
        return RecordLimits(max_bytes=sys.maxsize, compacts=False)

    def check_change(self, store: str, key: bytes, value: bytes | None, timestamp_ms: int) -> None:
        """No changelog can refuse the change."""

    def log_change(self, store: str, key: bytes, value: bytes | None, timestamp_ms: int) -> None:
        """The change is not logged."""


_NOT_LOGGED: ChangeLogger = _NotLogged()


class ChangeLoggingStore(WrappedStateStore[Inner], ABC):
    """`timestamped`: values begin with their timestamp.

    `always_accepted_bytes`, `timestamp_checks`: let a record cache save the three calls of `check` for most changes.
    `check` is sure to accept a change if key and value together have at most `always_accepted_bytes`, and if the
    timestamp is at most `timestamp_checks.accepted_to_ms`, the time up to which the topic takes every timestamp.
    """

    __slots__ = (
        "_changes",
        "_clock",
        "_limits",
        "_log_change",
        "_name",
        "_timestamped",
        "always_accepted_bytes",
        "timestamp_checks",
    )

    def __init__(self, inner: Inner, *, timestamped: bool = False) -> None:
        super().__init__(inner)
        self._name = inner.name  # read once: each change needs it, and the property calls each layer below
        self._timestamped = timestamped
        self._use(_NOT_LOGGED, NoRecords())

    def open(self, context: StoreContext) -> None:
        super().open(context)
        self._bind(context)

    def rebind(self, context: StoreContext) -> None:
        super().rebind(context)
        self._bind(context)

    def _bind(self, context: StoreContext) -> None:
        self._use(_NOT_LOGGED if context.changes is None else context.changes, context.clock)

    def _use(self, changes: ChangeLogger, clock: RecordClock) -> None:
        self._clock = clock
        self._changes = changes
        self._log_change = changes.log_change
        self._limits: RecordLimits | None = None
        # the first `check` replaces these two; until then -1 lets no change pass without it
        self.always_accepted_bytes = -1
        self.timestamp_checks: BrokerChecks = NO_TIMESTAMP_CHECKS

    def check(self, key: bytes, value: bytes | None) -> None:
        """Raise for a change that the changelog does not accept.

        `key`: the key as it is in the changelog. `value`: the value as it is in the store.
        """
        if self._limits is None:  # read at the first change, because a standby never needs the limits
            self._limits = limits = self._changes.limits_of(self._name)
            self.always_accepted_bytes, self.timestamp_checks = limits.max_bytes, limits.checks
        logged, timestamp_ms = self._logged(value, self._clock.record_timestamp_ms)
        if not self._limits.takes_unchecked(key, logged, timestamp_ms):
            self._changes.check_change(self._name, key, logged, timestamp_ms)

    @abstractmethod
    def read(self, key: bytes) -> bytes | None:
        """The value of a key, which is as in the changelog."""

    @abstractmethod
    def put_checked(self, key: bytes, value: bytes | None, record_ms: int) -> None:
        """As `put`, without the check: for a change that `check` has accepted, in a store without duplicates.

        `key`, `value`: as for `check`. `record_ms`: the timestamp of the record that made the change.
        """

    def _logged(self, value: bytes | None, record_ms: int) -> tuple[bytes | None, int]:
        """The value and the timestamp of the changelog's record for a value in the store."""
        if value is None or not self._timestamped:
            return value, record_ms
        return value[TIMESTAMP_BYTES:], unpack_timestamp(value)[0]


class ChangeLoggingKeyValueBytesStore(ChangeLoggingStore[KeyValueBytesStore]):
    """`KeyValueBytesStore`."""

    __slots__ = ()

    def get(self, key: bytes) -> bytes | None:
        return self._inner.get(key)

    read = get

    def put(self, key: bytes, value: bytes | None) -> None:
        self.check(key, value)
        logged, timestamp_ms = self._logged(value, self._clock.record_timestamp_ms)
        self._inner.put(key, value)
        self._log_change(self._name, key, logged, timestamp_ms)

    def put_all(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        for key, value in entries:
            self.check(key, value)
        self._inner.put_all(entries)
        for key, value in entries:
            self._log_change(self._name, key, *self._logged(value, self._clock.record_timestamp_ms))

    def put_checked(self, key: bytes, value: bytes | None, record_ms: int) -> None:
        logged, timestamp_ms = self._logged(value, record_ms)
        self._inner.put(key, value)
        self._log_change(self._name, key, logged, timestamp_ms)

    def scan(self, start: bytes | None, exclusive_end: bytes | None, *, reverse: bool = False) -> Entries:
        return self._inner.scan(start, exclusive_end, reverse=reverse)

    def approximate_num_entries(self) -> int:
        return self._inner.approximate_num_entries()


class ChangeLoggingWindowBytesStore(ChangeLoggingStore[WindowBytesStore]):
    """`WindowBytesStore`. A put into an expired window is logged, too, as in Kafka.

    Differs from Kafka: in a store with duplicates a put of None deletes nothing and is not logged. Kafka logs a
    deletion with a sequence number that no value has.
    """

    __slots__ = ()

    def put(self, key: bytes, value: bytes | None, start_ms: int) -> int | None:
        self.check(key, value)
        logged, timestamp_ms = self._logged(value, self._clock.record_timestamp_ms)
        sequence = self._inner.put(key, value, start_ms)
        if sequence is not None:  # None: the store made no change, so there is nothing to log
            if sequence:  # 0: `key` has this sequence number already
                key = window_key(key[:-SUFFIX_BYTES], start_ms, sequence)
            self._log_change(self._name, key, logged, timestamp_ms)
        return sequence

    def put_checked(self, key: bytes, value: bytes | None, record_ms: int) -> None:
        logged, timestamp_ms = self._logged(value, record_ms)
        self._inner.put(key, value, suffix_of(key)[0])
        self._log_change(self._name, key, logged, timestamp_ms)

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:
        return self._inner.fetch(key, start_ms)

    def read(self, key: bytes) -> bytes | None:
        return self._inner.fetch(key, suffix_of(key)[0])

    def fetch_range(self, key: bytes, from_ms: int, to_ms: int) -> Iterator[tuple[int, bytes]]:
        return self._inner.fetch_range(key, from_ms, to_ms)

    def fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[bytes, int, bytes]]:
        return self._inner.fetch_all(from_ms, to_ms)
