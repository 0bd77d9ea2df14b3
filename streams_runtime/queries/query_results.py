"""The results of a client's queries. Values are bytes, as the store's value serde writes them. Times are in
milliseconds. Source: `StateQueryResult`, `QueryResult`.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streams_runtime.logs.base import IsolationLevel


@dataclass(frozen=True, slots=True)
class CopyAnswered:
    """The store copy that answered the query. `role`: active or standby. `lag`: the number of changelog records that
    the copy had not yet read at the last measurement. `isolation_level`: the level with which the copy was read. It is
    READ_UNCOMMITTED for a store that does not keep its committed state apart, whatever level the query gave.
    """

    host: str
    role: str
    lag: int
    isolation_level: IsolationLevel


@dataclass(frozen=True, slots=True)
class StoreValue:
    """The value of a key. `value`: None if the key has no value. `timestamp_ms`: the timestamp of the value; None if
    the store has no timestamps.
    """

    value: bytes | None
    timestamp_ms: int | None
    source: CopyAnswered


@dataclass(frozen=True, slots=True)
class WindowValue:
    """One window of a key. `timestamp_ms`: the timestamp of the value; None if the store has no timestamps."""

    start_ms: int
    value: bytes
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class StoreWindows:
    """Windows of one key, oldest first. `more`: True if the key has further windows that are not in the result."""

    windows: tuple[WindowValue, ...]
    more: bool
    source: CopyAnswered


@dataclass(frozen=True, slots=True)
class SessionValue:
    """One session of a key. The session includes its start and its end."""

    start_ms: int
    end_ms: int
    value: bytes


@dataclass(frozen=True, slots=True)
class StoreSessions:
    """Sessions of one key, oldest first. `more`: True if the key has further sessions that are not in the result."""

    sessions: tuple[SessionValue, ...]
    more: bool
    source: CopyAnswered


@dataclass(frozen=True, slots=True)
class VersionValue:
    """One version of a key. The version is valid from `timestamp_ms` on. `valid_to_ms`: the time at which the next
    version begins; None for the newest version.
    """

    value: bytes
    timestamp_ms: int
    valid_to_ms: int | None


@dataclass(frozen=True, slots=True)
class StoreVersions:
    """Versions of one key, newest first. `more`: True if the key has further versions that are not in the result."""

    versions: tuple[VersionValue, ...]
    more: bool
    source: CopyAnswered


# The functions read an instance's JSON document. They raise LookupError, TypeError or ValueError for other documents.


def value_of(document: Mapping[str, Any], source: CopyAnswered) -> StoreValue:
    encoded = document["value_base64"]
    return StoreValue(None if encoded is None else base64.b64decode(encoded), document["timestamp_ms"], source)


def windows_of(document: Mapping[str, Any], source: CopyAnswered) -> StoreWindows:
    windows = (WindowValue(one["window_start_ms"], _bytes(one), one["timestamp_ms"]) for one in document["windows"])
    return StoreWindows(tuple(windows), document["more"], source)


def sessions_of(document: Mapping[str, Any], source: CopyAnswered) -> StoreSessions:
    sessions = (
        SessionValue(one["session_start_ms"], one["session_end_ms"], _bytes(one)) for one in document["sessions"]
    )
    return StoreSessions(tuple(sessions), document["more"], source)


def versions_of(document: Mapping[str, Any], source: CopyAnswered) -> StoreVersions:
    versions = (VersionValue(_bytes(one), one["timestamp_ms"], one["valid_to_ms"]) for one in document["versions"])
    return StoreVersions(tuple(versions), document["more"], source)


def _bytes(entry: Mapping[str, Any]) -> bytes:
    return base64.b64decode(entry["value_base64"])
