"""Where to continue: the file `<output>.position`, replaced as a whole, so a kill leaves the old one or the new one.

It may lag behind the output, never lead it: a line is in the file before the position that covers it, and `size` says
how much of the output is covered. The recorder finds later lines by reading the output itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from assignor.errors import InputError
from kafka_groups.recorder.generations import LastSeen
from operating_system.private_files import private_opener

POSITION_FORMAT = "record-position/1"
SUFFIX = ".position"


@dataclass(frozen=True, slots=True)
class Position:
    """`partitions`: the next offset of each partition of `__consumer_offsets`. `size`: bytes of the output covered."""

    partitions: Mapping[int, int] = field(default_factory=dict)
    groups: Mapping[str, LastSeen] = field(default_factory=dict)
    size: int = 0


def read_position(path: Path) -> Position | None:
    """None when there is no such file. Raises InputError for a file that is no position."""
    try:
        document = json.loads(path.read_bytes())
        if document["format"] != POSITION_FORMAT:
            raise ValueError(f"its format is {document['format']!r}")
        return Position(
            {int(number): int(offset) for number, offset in document["partitions"].items()},
            {group: LastSeen(**seen) for group, seen in document["groups"].items()},
            int(document["size"]),
        )
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", str(path)) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"is not a position of `assignor record` ({error}); move it away, and the lines of the output tell where "
            "to continue",
            str(path),
        ) from None


def write_position(path: Path, position: Position) -> None:
    """The position is on disk once this returns. Raises InputError."""
    document = {
        "format": POSITION_FORMAT,
        "partitions": {str(number): offset for number, offset in sorted(position.partitions.items())},
        "groups": {group: asdict(seen) for group, seen in sorted(position.groups.items())},
        "size": position.size,
    }
    partial = path.with_name(f"{path.name}.partial")
    try:
        with open(partial, "w", encoding="utf-8", opener=private_opener) as stream:
            json.dump(document, stream, indent=1)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", str(path)) from None
