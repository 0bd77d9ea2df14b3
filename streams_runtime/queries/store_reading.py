"""Converts keys and values of a store to JSON, which people read, and to base64, which programs read. The conversions
use the serdes of the store's builder.

The field `value` is null if JSON cannot represent the value. The field `value_base64` is null only if there is no
value. A query may always give a key as base64. A query may give a key as text only if `_KEY_OF_TEXT` contains the key
serde.
"""

import base64
import json
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from streams_runtime.queries.problems import QueryCode, QueryProblem
from streams_runtime.serdes import BytesSerde, DoubleSerde, JsonSerde, LongSerde, Serde, StringSerde
from streams_runtime.state_stores.builders import (
    SerdesStoreBuilder,
    SessionStoreBuilder,
    VersionedKeyValueStoreBuilder,
    WindowBuilder,
)
from streams_runtime.state_stores.state_store import StateStore, StoreBuilder, ValueAndTimestamp

_Readable = SerdesStoreBuilder[Any, Any]
_KEY_OF_TEXT: Mapping[type, Callable[[str], Any]] = {
    StringSerde: str,
    LongSerde: int,
    DoubleSerde: float,
    JsonSerde: json.loads,
    BytesSerde: str.encode,
}
_URL_SAFE = str.maketrans("-_", "+/")

Entry = dict[str, object]


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
    _refuse_sessions(readable)
    if isinstance(readable, VersionedKeyValueStoreBuilder):
        record = store.get(readable.key_serde.deserialize(key), as_of_ms)
        return _entry(readable, None if record is None else ValueAndTimestamp(record.value, record.timestamp_ms))
    return _entry(readable, store.get(readable.key_serde.deserialize(key)))


def fetch_windows(
    builder: StoreBuilder, store: Any, key: bytes, from_ms: int, to_ms: int, limit: int
) -> tuple[list[Entry], bool]:
    """Returns the windows of a key that start between `from_ms` and `to_ms`, inclusive, oldest first. Returns at most
    `limit` windows. The second result is True if there are more windows.
    """
    readable = _readable(builder)
    if not isinstance(readable, WindowBuilder):
        raise _invalid(f"{builder.name!r} is no window store")
    windows = list(islice(store.fetch_range(readable.key_serde.deserialize(key), from_ms, to_ms), limit + 1))
    found = [{"window_start_ms": start_ms, **_entry(readable, value)} for start_ms, value in windows[:limit]]
    return found, len(windows) > limit


def read_entries(builder: StoreBuilder, store: StateStore, limit: int) -> list[Entry]:
    """Returns the first `limit` entries of one copy of the store, sorted by the bytes of their keys."""
    readable = _readable(builder)
    if isinstance(readable, WindowBuilder):
        raise _invalid(f"{builder.name!r} is a window store: ask for /windows of a key")
    _refuse_sessions(readable)
    if isinstance(readable, VersionedKeyValueStoreBuilder):
        raise _invalid(f"{builder.name!r} is a versioned store, which cannot be listed: ask for a key")
    entries: Any = store
    return [
        {"key": _json(key), "key_base64": _base64(readable.key_serde.serialize(key)), **_entry(readable, value)}
        for key, value in islice(entries.all(), limit)
    ]


def _refuse_sessions(builder: _Readable) -> None:
    if isinstance(builder, SessionStoreBuilder):
        raise _invalid(f"{builder.name!r} is a session store, which cannot be queried over HTTP yet")


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
    """Returns the value, or None if JSON cannot represent it."""
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        return None
    return value


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _invalid(detail: str) -> QueryProblem:
    return QueryProblem(QueryCode.INVALID_REQUEST, detail)
