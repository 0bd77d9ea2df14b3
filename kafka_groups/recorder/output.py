"""Writes the recorded lines to a file or to stdout, and saves the position from which the next run continues.

Rules:
- A line is synced to disk before the position that covers the line is saved. After a kill, the output file may end with
  an incomplete line. The next run removes the incomplete line. The next run reads the record of this line again,
  because no saved position covers that record.
- The position is stored in the file `<output>.position`. The position file is replaced as a whole. So after a kill, the
  position file has either the old or the new position. The output may have lines that the position does not cover. The
  position never covers a line that is missing in the output. The field `size` of the position is the number of bytes of
  the output that the position covers. The next run reads only the part of the output after these bytes. The id of each
  line shows the record from which the line was made.
- The line of an interrupted generation stands before the line of the next generation. The recorder may be killed
  between these two lines. The next run then also removes the line of the interrupted generation, and writes it again.
  So a kill at any moment loses no line and duplicates no line.
- A lock on the output file prevents two recorders from writing to one file.
"""

import fcntl
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from assignor.errors import InputError
from assignor.recording.fields import document_of_line, line_of_document
from kafka_groups.recorder.generations import GroupGenerations, LastSeen
from operating_system.private_files import FILE_MODE, private_opener, warn_if_readable_by_others
from operating_system.whole_files import input_errors, whole_file

_ID = re.compile(r"(?P<group>.*)\.(?P<generation>\d+)@(?P<partition>\d+):(?P<offset>\d+)\Z", re.DOTALL)

POSITION_FORMAT = "record-position/1"
SUFFIX = ".position"


@dataclass(frozen=True, slots=True)
class Position:
    """The position from which the next run continues. `partitions`: the next offset of each partition of
    `__consumer_offsets`. `size`: the number of bytes of the output that the position covers.
    """

    partitions: Mapping[int, int] = field(default_factory=dict)
    groups: Mapping[str, LastSeen] = field(default_factory=dict)
    size: int = 0


def read_position(path: Path) -> Position | None:
    """Reads a position file. Returns None if the file does not exist. Raises InputError if the file is not a position
    file.
    """
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
    """Writes the position and syncs it to disk. Raises InputError."""
    document = {
        "format": POSITION_FORMAT,
        "partitions": {str(number): offset for number, offset in sorted(position.partitions.items())},
        "groups": {group: asdict(seen) for group, seen in sorted(position.groups.items())},
        "size": position.size,
    }
    with input_errors("cannot be written", path), whole_file(path, private_opener) as stream:
        stream.write(json.dumps(document, indent=1).encode())
        stream.flush()
        os.fsync(stream.fileno())


class StandardOutput:
    """Writes lines to stdout. Stdout has no position, so a later run cannot continue this run."""

    position: Position | None = None

    def last_lines(self) -> Mapping[str, Mapping[str, object]]:
        return {}

    def append(self, *documents: Mapping[str, object]) -> None:
        for document in documents:
            print(line_of_document(document), flush=True)

    def save(self, partitions: Mapping[int, int], groups: Mapping[str, LastSeen]) -> None:
        return

    def close(self) -> None:
        sys.stdout.flush()


class OutputFile:
    """Writes lines to a file. `position`: the position at which the previous run stopped; None in a first run. This
    position covers all lines of the previous run, even lines that were written after the position was last saved.

    Raises InputError if the file cannot be written, or if another recorder writes to it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        if path.suffix == ".gz":
            raise InputError("is written line by line; name it .jsonl, and gzip it afterwards", str(path))
        with input_errors("cannot be written", path):
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, FILE_MODE)
        self._position_path = path.with_name(path.name + SUFFIX)  # The name is not empty, because the path was opened.
        warn_if_readable_by_others(path)
        try:
            self._lock()
            self.position = self._recovered()
        except BaseException:
            os.close(self._file)
            raise

    def append(self, *documents: Mapping[str, object]) -> None:
        """Appends lines to the file, and syncs them to disk. Raises InputError."""
        raw = b"".join(line_of_document(each).encode("utf-8", "surrogatepass") + b"\n" for each in documents)
        with input_errors("cannot be written", self._path):
            while raw:
                raw = raw[os.write(self._file, raw) :]
            os.fsync(self._file)

    def last_lines(self) -> Mapping[str, Mapping[str, object]]:
        """Returns the last line of each group. The caller reports these lines, because the previous run may have ended
        before it reported them.
        """
        lines: dict[str, Mapping[str, object]] = {}
        with self._path.open("rb") as stream:
            for line in stream:
                document = _document(line)
                match = _match(document)
                if match is not None:
                    lines[match["group"]] = document
        return lines

    def save(self, partitions: Mapping[int, int], groups: Mapping[str, LastSeen]) -> None:
        """Saves a position that covers all appended lines."""
        write_position(self._position_path, Position(partitions, groups, os.fstat(self._file).st_size))

    def close(self) -> None:
        os.close(self._file)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError("another `assignor record` writes to it", str(self._path)) from None

    def _recovered(self) -> Position | None:
        """Removes an incomplete last line of the file. Also removes lines of interrupted generations at the end of the
        file. Returns the position that covers all remaining lines; None in a first run.
        """
        saved = read_position(self._position_path)
        size = os.fstat(self._file).st_size
        whole = saved.size if saved is not None and saved.size <= size else 0
        groups = {group: GroupGenerations(group, seen) for group, seen in (saved.groups if saved else {}).items()}
        with self._path.open("rb") as stream:
            stream.seek(whole)
            waiting = 0
            for line in stream:
                if not line.endswith(b"\n"):
                    break
                waiting += len(line)
                document = _document(line)
                if document.get("interrupted") is True:
                    continue
                whole, waiting = whole + waiting, 0
                match = _match(document)
                if match is not None:
                    generations = groups.setdefault(match["group"], GroupGenerations(match["group"]))
                    generations.wrote(int(match["generation"]), int(match["offset"]))
        if whole < size:
            os.ftruncate(self._file, whole)
        if saved is None and not groups:
            return None
        return Position(
            dict(saved.partitions) if saved else {}, {group: each.seen for group, each in groups.items()}, whole
        )


Output = StandardOutput | OutputFile


def _document(line: bytes) -> Mapping[str, object]:
    """Returns the document of a line; an empty mapping if the line is not a valid document."""
    try:
        return document_of_line(line)
    except InputError:
        return {}


def _match(document: Mapping[str, object]) -> re.Match[str] | None:
    identifier = document.get("id")
    return _ID.match(identifier) if isinstance(identifier, str) else None
