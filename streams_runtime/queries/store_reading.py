"""Converts keys and values of a store to JSON, which people read, and to base64, which programs read. The conversions
use the serdes of the store's builder.

In JSON, a UUID is its text, a list is a list, and a windowed key is an object with `key`, `window_start_ms` and
`window_end_ms`. The field `value` is null if JSON cannot represent the value, for example for bytes. The field
`value_base64` is null only if there is no value. A query may always give a key as base64. A query may give a key as
text only if `_KEY_OF_TEXT` contains the key serde.
"""

import base64
import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from assignor.types import JAVA_LONG_MAX
from streams_runtime.queries.problems import QueryCode, QueryProblem
from streams_runtime.serdes import (
    BooleanSerde,
    BytesSerde,
    DoubleSerde,
    FloatSerde,
    IntegerSerde,
    JsonSerde,
    LongSerde,
    Serde,
    ShortSerde,
    StringSerde,
    UUIDSerde,
)
from streams_runtime.state_stores.builders import (
    SerdesStoreBuilder,
    SessionStoreBuilder,
    VersionedKeyValueStoreBuilder,
    WindowBuilder,
)
from streams_runtime.state_stores.state_store import StateStore, StoreBuilder, ValueAndTimestamp, Windowed

_Readable = SerdesStoreBuilder[Any, Any]
_KEY_OF_TEXT: Mapping[type, Callable[[str], Any]] = {
    StringSerde: str,
    BooleanSerde: {"true": True, "false": False}.__getitem__,
    ShortSerde: int,
    IntegerSerde: int,
    LongSerde: int,
    FloatSerde: float,
    DoubleSerde: float,
    UUIDSerde: uuid.UUID,
    JsonSerde: json.loads,
    BytesSerde: str.encode,
}
_URL_SAFE = str.maketrans("-_", "+/")

Entry = dict[str, object]

Page = tuple[list[Entry], bool]
"""The first entries that a query found; True if there are more."""


def key_bytes(builder: StoreBuilder, key: str | None, key_base64: str | None) -> bytes:
    """Returns the bytes of a key from its text or from its base64 form. Raises QueryProblem if the key is invalid.
    Exactly one of the two forms must be given; otherwise, raises QueryProblem, too.
    """
    if (key is None) == (key_base64 is None):
        raise _invalid("give the key as `key` or as `key_base64`")
    serde = _readable(builder).key_serde
    if key_base64 is not None:
        return _checked(builder.name, serde, _decoded(key_base64))
    read = _KEY_OF_TEXT.get(type(serde))
    if read is None:
        raise _invalid(f"keys of {builder.name!r} have a serde of their own: give the bytes as key_base64")
    try:
        return bytes(serde.serialize(read(str(key))))
    except Exception as error:  # a serde may raise any error for a key that it cannot write
        raise _invalid(f"{key!r} is no key of {builder.name!r}: {error}") from None


def read_key(
    builder: StoreBuilder, store: Any, key: bytes, window_start_ms: int | None, as_of_ms: int | None = None
) -> Entry:
    """Returns the entry of a key. In a window store, the entry belongs to a key and a window. In a versioned store, the
    entry is the newest version, or the version that was valid at the time `as_of_ms`. The fields `value` and
    `value_base64` are None if the key has no value.
    """
    readable = _readable(builder)
    if as_of_ms is not None and not isinstance(readable, VersionedKeyValueStoreBuilder):
        raise _invalid(f"{builder.name!r} is no versioned store and takes no as_of_ms")
    if isinstance(readable, WindowBuilder):
        if window_start_ms is None:
            raise _invalid(f"{builder.name!r} is a window store: give window_start_ms, or ask for /windows")
        return _entry(readable, store.fetch(readable.key_serde.deserialize(key), window_start_ms))
    if window_start_ms is not None:
        raise _invalid(f"{builder.name!r} is no window store and takes no window_start_ms")
    if isinstance(readable, SessionStoreBuilder):
        raise _invalid(f"{builder.name!r} is a session store: ask for /sessions of a key")
    if isinstance(readable, VersionedKeyValueStoreBuilder):
        record = store.get(readable.key_serde.deserialize(key), as_of_ms)
        return _entry(readable, None if record is None else ValueAndTimestamp(record.value, record.timestamp_ms))
    return _entry(readable, store.get(readable.key_serde.deserialize(key)))


def fetch_windows(builder: StoreBuilder, store: Any, key: bytes, from_ms: int, to_ms: int, limit: int) -> Page:
    """Returns the windows of a key that start between `from_ms` and `to_ms`, inclusive, oldest first."""
    readable = _readable(builder)
    if not isinstance(readable, WindowBuilder):
        raise _invalid(f"{builder.name!r} is no window store")
    windows = store.fetch_range(readable.key_serde.deserialize(key), from_ms, to_ms)
    return _page(({"window_start_ms": start_ms, **_entry(readable, value)} for start_ms, value in windows), limit)


def find_sessions(
    builder: StoreBuilder, store: Any, key: bytes, earliest_end_ms: int, latest_start_ms: int, limit: int
) -> Page:
    """Returns the sessions of a key that end at `earliest_end_ms` or later, and start at `latest_start_ms` or earlier.
    The oldest session comes first. Source: `ReadOnlySessionStore.findSessions`.
    """
    readable = _readable(builder)
    if not isinstance(readable, SessionStoreBuilder):
        raise _invalid(f"{builder.name!r} is no session store")
    sessions = store.find_sessions(readable.key_serde.deserialize(key), earliest_end_ms, latest_start_ms)
    found = (
        {"session_start_ms": session.start_ms, "session_end_ms": session.end_ms, **_entry(readable, value)}
        for session, value in sessions
    )
    return _page(found, limit)


def read_versions(builder: StoreBuilder, store: Any, key: bytes, from_ms: int, to_ms: int, limit: int) -> Page:
    """Returns the versions of a key that were valid at some time between `from_ms` and `to_ms`, inclusive. The newest
    version comes first. Source: `MultiVersionedKeyQuery`.
    """
    readable = _readable(builder)
    if not isinstance(readable, VersionedKeyValueStoreBuilder):
        raise _invalid(f"{builder.name!r} is no versioned store")
    if from_ms > to_ms:
        raise _invalid(f"from_ms ({from_ms}) is greater than to_ms ({to_ms})")
    versions = store.versions(readable.key_serde.deserialize(key), from_ms, to_ms)
    found = (
        {**_entry(readable, (version.value, version.timestamp_ms)), "valid_to_ms": version.valid_to_ms}
        for version in versions
    )
    return _page(found, limit)


def read_entries(
    builder: StoreBuilder, store: StateStore, limit: int, from_ms: int | None = None, to_ms: int | None = None
) -> list[Entry]:
    """Returns the first `limit` entries of one copy of the store, sorted by the bytes of their keys. In a window store,
    the entries are the windows that start between `from_ms` and `to_ms`, inclusive, in the order of the store. If a
    bound is None, the range is open at this end. Source: `RangeQuery`, `WindowRangeQuery`.
    """
    readable = _readable(builder)
    entries: Any = store
    if isinstance(readable, WindowBuilder):
        windows = entries.fetch_all(0 if from_ms is None else from_ms, JAVA_LONG_MAX if to_ms is None else to_ms)
        return [
            {**_key(readable, key), "window_start_ms": start_ms, **_entry(readable, value)}
            for (key, start_ms, _end_ms), value in islice(windows, limit)
        ]
    if from_ms is not None or to_ms is not None:
        raise _invalid(f"{builder.name!r} is no window store and takes no from_ms and no to_ms")
    if isinstance(readable, SessionStoreBuilder):
        raise _invalid(f"{builder.name!r} is a session store, which cannot be listed: ask for /sessions of a key")
    if isinstance(readable, VersionedKeyValueStoreBuilder):
        raise _invalid(f"{builder.name!r} is a versioned store, which cannot be listed: ask for a key")
    return [{**_key(readable, key), **_entry(readable, value)} for key, value in islice(entries.all(), limit)]


def _page(found: Iterable[Entry], limit: int) -> Page:
    entries = list(islice(found, limit + 1))
    return entries[:limit], len(entries) > limit


def _readable(builder: StoreBuilder) -> _Readable:
    if isinstance(builder, SerdesStoreBuilder) and builder.queryable:
        return builder
    kind = "a buffer" if isinstance(builder, SerdesStoreBuilder) else "a store of the user's own kind"
    raise _invalid(f"{builder.name!r} is {kind}, which cannot be queried")


def _decoded(key_base64: str) -> bytes:
    try:
        return base64.b64decode(key_base64.translate(_URL_SAFE), validate=True)
    # invalid base64 raises binascii.Error, a subclass of ValueError; text that is not ASCII raises ValueError
    except ValueError as error:
        hint = "; in an address write - and _ for + and /" if " " in key_base64 else ""
        raise _invalid(f"key_base64 is not base64: {error}{hint}") from None


def _checked(store: str, serde: Serde[Any], key: bytes) -> bytes:
    """Checks and returns the bytes of a key. The store will get the deserialized key, and will serialize it again. If
    the serialized key differed from the given bytes, the store would return the entry of another key. Raises
    QueryProblem if the serde cannot read the bytes, or would write different bytes.
    """
    try:
        written = serde.serialize(serde.deserialize(key))
    except Exception as error:  # a serde may raise any error for bytes that it did not write
        raise _invalid(f"these bytes are no key of {store!r}: {error}") from None
    if written != key:
        raise _invalid(f"the key serde of {store!r} writes this key as {written!r}, not as the bytes given")
    return key


def _key(readable: _Readable, key: Any) -> Entry:
    return {"key": _json(key), "key_base64": _base64(readable.key_serde.serialize(key))}


def _entry(readable: _Readable, value: Any) -> Entry:
    timestamp_ms = None
    if value is not None and readable.timestamped:
        value, timestamp_ms = value
    return {
        "value": _json(value),
        "value_base64": None if value is None else _base64(readable.value_serde.serialize(value)),
        "timestamp_ms": timestamp_ms,
    }


def _json(value: Any) -> object:
    """Returns the value as an object of JSON, or None if JSON cannot represent it."""
    if isinstance(value, Windowed):  # a named tuple, which would become a list
        return {"key": _json(value.key), "window_start_ms": value.start_ms, "window_end_ms": value.end_ms}
    try:
        text = json.dumps(value, default=_text_of_uuid, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        return None
    return json.loads(text)


def _text_of_uuid(value: object) -> str:
    if isinstance(value, uuid.UUID):
        return str(value)
    raise TypeError(f"JSON has no {type(value).__name__}")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _invalid(detail: str) -> QueryProblem:
    return QueryProblem(QueryCode.INVALID_REQUEST, detail)
