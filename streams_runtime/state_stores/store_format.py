"""The format of a persistent store's files: its kind and, for windows, where they lie. Kept in a file beside them.

    rocksdb/<store>/store-format    {"kind": "window", "retention.ms": 660000, "segment.interval.ms": 330000}

The next version of an application may have a store of another kind or another retention under the same name. Its bytes
then mean something else, and nothing in a RocksDB says so. The file is written once the store's content has its format.
While windows are moved to segments of another length, it names no interval. Stores of versions before this file have
none: what their keys show then decides.

Source: none in Kafka, which keeps windows and other stores in directories of different names, names a segment by the
time at which it begins, and keeps values with timestamps in a column family of their own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from assignor.access.private_files import private_opener
from assignor.whole_files import whole_file

FORMAT_FILE_NAME = "store-format"
"""RocksDB leaves files alone whose names are not like its own."""

_KIND, _RETENTION, _INTERVAL = "kind", "retention.ms", "segment.interval.ms"


class StoreKind(StrEnum):
    """Stores of different kinds cannot read each other's bytes."""

    KEY_VALUE = "key-value"
    TIMESTAMPED_KEY_VALUE = "timestamped key-value"
    WINDOW = "window"
    TIMESTAMPED_WINDOW = "timestamped window"
    DUPLICATES_WINDOW = "window with duplicates"

    @property
    def is_timestamped(self) -> bool:
        """Whether a value begins with its timestamp."""
        return self in (StoreKind.TIMESTAMPED_KEY_VALUE, StoreKind.TIMESTAMPED_WINDOW)


@dataclass(frozen=True, slots=True)
class StoreFormat:
    """`kind`: of `StoreKind`, or one that only a later version knows. The other two: of a store of windows only."""

    kind: str
    retention_ms: int | None = None
    segment_interval_ms: int | None = None


def read_format(directory: Path) -> StoreFormat | None:
    """None when there is no such file, or it cannot be understood. Raises OSError."""
    try:
        document = json.loads((directory / FORMAT_FILE_NAME).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    if not isinstance(document, Mapping) or not isinstance(document.get(_KIND), str):
        return None
    return StoreFormat(document[_KIND], _number(document, _RETENTION), _number(document, _INTERVAL))


def write_format(directory: Path, kept: StoreFormat) -> None:
    """Raises OSError."""
    document = {_KIND: str(kept.kind), _RETENTION: kept.retention_ms, _INTERVAL: kept.segment_interval_ms}
    text = json.dumps({name: value for name, value in document.items() if value is not None})
    with whole_file(directory / FORMAT_FILE_NAME, private_opener) as stream:
        stream.write(text.encode())
        stream.flush()
        os.fsync(stream.fileno())


def _number(document: Mapping[str, object], name: str) -> int | None:
    value = document.get(name)
    return value if isinstance(value, int) else None
