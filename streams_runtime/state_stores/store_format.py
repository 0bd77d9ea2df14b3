"""The format of a persistent store's files: the kind of store and, if its entries expire, the segments. The format is
in a separate file:

    rocksdb/<store>/store-format    {"kind": "window", "retention.ms": 660000, "segment.interval.ms": 330000}

A new version of an application may use an old store's name for another kind of store, or change the store's retention.
The RocksDB files do not show the kind of store. So without a format file, the new version would misread the bytes of
the old store. The format file is written only when the whole content of the store has this format. While entries are
moved to segments of another length, the format file has no `segment.interval.ms`. Older releases of this package wrote
no format file. If there is no format file, the keys of the store show its kind.

Kafka has no format file. Kafka keeps window stores and key-value stores in directories with different names. Kafka
names a segment by its start time, and keeps values with timestamps in a separate column family.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from operating_system.private_files import private_opener
from operating_system.whole_files import whole_file

FORMAT_FILE_NAME = "store-format"
"""RocksDB ignores a file with this name in its directory."""

_KIND, _RETENTION, _INTERVAL, _TIME_ORDERED = "kind", "retention.ms", "segment.interval.ms", "time.ordered"


class StoreKind(StrEnum):
    """The kind of a store. Stores of different kinds cannot read each other's bytes."""

    KEY_VALUE = "key-value"
    TIMESTAMPED_KEY_VALUE = "timestamped key-value"
    WINDOW = "window"
    TIMESTAMPED_WINDOW = "timestamped window"
    DUPLICATES_WINDOW = "window with duplicates"
    VERSIONED = "versioned"
    JOIN_BUFFER = "join buffer"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class StoreFormat:
    """The content of a format file.

    `kind`: a `StoreKind`, or a kind of a later release that this release does not know. `retention_ms`,
    `segment_interval_ms`: None if the store has no segments; window stores, session stores and versioned stores have
    segments. `time_ordered`: True if the files have an index in the order of time.
    """

    kind: str
    retention_ms: int | None = None
    segment_interval_ms: int | None = None
    time_ordered: bool = False


def read_format(directory: Path) -> StoreFormat | None:
    """Returns the format of the files, or None if there is no valid format file. Raises OSError."""
    try:
        document = json.loads((directory / FORMAT_FILE_NAME).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    if not isinstance(document, Mapping) or not isinstance(document.get(_KIND), str):
        return None
    retention_ms, interval_ms = _number(document, _RETENTION), _number(document, _INTERVAL)
    return StoreFormat(document[_KIND], retention_ms, interval_ms, document.get(_TIME_ORDERED) is True)


def write_format(directory: Path, file_format: StoreFormat) -> None:
    """Writes the format file atomically. Raises OSError."""
    kind, retention_ms, interval_ms = file_format.kind, file_format.retention_ms, file_format.segment_interval_ms
    time_ordered = True if file_format.time_ordered else None
    document = {_KIND: str(kind), _RETENTION: retention_ms, _INTERVAL: interval_ms, _TIME_ORDERED: time_ordered}
    text = json.dumps({name: value for name, value in document.items() if value is not None})
    with whole_file(directory / FORMAT_FILE_NAME, private_opener) as stream:
        stream.write(text.encode())
        stream.flush()
        os.fsync(stream.fileno())


def _number(document: Mapping[str, object], name: str) -> int | None:
    value = document.get(name)
    return value if isinstance(value, int) else None
