"""The recorded lines: appended one by one to a file that itself tells what it has, or printed to stdout.

Rules: a line is written and synced before the next record is taken. After a kill the file may end in half a line. The
next run cuts it off, and reads its record again, since no position covers it yet. A whole line without a position names
its record by its id. The line of an interrupted generation stands before that of the next one; without that one, it is
cut off, too. So a kill at any moment loses no line and doubles none. Two recorders cannot write to one file.
"""

from __future__ import annotations

import fcntl
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from assignor.errors import InputError
from assignor.recording.fields import document_of_line, line_of_document
from kafka_groups.recorder.generations import GroupGenerations, LastSeen
from kafka_groups.recorder.position import SUFFIX, Position, read_position, write_position
from operating_system.private_files import FILE_MODE, warn_if_readable_by_others

_ID = re.compile(r"(?P<group>.*)\.(?P<generation>\d+)@(?P<partition>\d+):(?P<offset>\d+)\Z", re.DOTALL)


class Output(Protocol):
    """`position`: where an earlier run stopped, including lines after its last saved position; None on a first run."""

    position: Position | None

    def last_lines(self) -> Mapping[str, Mapping[str, object]]:
        """The last line of each group, which the run before may not have reported."""
        ...

    def append(self, *documents: Mapping[str, object]) -> None:
        """Append lines that belong together."""
        ...

    def save(self, partitions: Mapping[int, int], groups: Mapping[str, LastSeen]) -> None:
        """Save this position, which covers all appended lines."""
        ...

    def close(self) -> None: ...


class StandardOutput:
    """Keeps no position: the next run starts afresh."""

    def __init__(self) -> None:
        self.position: Position | None = None

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
    """Raises InputError when the file cannot be written, or another recorder writes to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if path.suffix == ".gz":
            raise InputError("is written line by line; name it .jsonl, and gzip it afterwards", str(path))
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, FILE_MODE)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", str(path)) from None
        self._position_path = path.with_name(path.name + SUFFIX)  # it has a name: no directory could be opened so
        warn_if_readable_by_others(path)
        try:
            self._lock()
            self.position = self._recovered()
        except BaseException:
            os.close(self._file)
            raise

    def append(self, *documents: Mapping[str, object]) -> None:
        raw = b"".join(line_of_document(each).encode("utf-8", "surrogatepass") + b"\n" for each in documents)
        try:
            while raw:
                raw = raw[os.write(self._file, raw) :]
            os.fsync(self._file)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", str(self._path)) from None

    def last_lines(self) -> Mapping[str, Mapping[str, object]]:
        lines: dict[str, Mapping[str, object]] = {}
        with self._path.open("rb") as stream:
            for line in stream:
                document = _document(line)
                match = _match(document)
                if match is not None:
                    lines[match["group"]] = document
        return lines

    def save(self, partitions: Mapping[int, int], groups: Mapping[str, LastSeen]) -> None:
        write_position(self._position_path, Position(partitions, groups, os.fstat(self._file).st_size))

    def close(self) -> None:
        os.close(self._file)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError("another `assignor record` writes to it", str(self._path)) from None

    def _recovered(self) -> Position | None:
        """The position that covers all whole lines. Cuts off half a line at the end."""
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


def _document(line: bytes) -> Mapping[str, object]:
    """Empty for a line that `assignor record` did not write."""
    try:
        return document_of_line(line)
    except InputError:
        return {}


def _match(document: Mapping[str, object]) -> re.Match[str] | None:
    identifier = document.get("id")
    return _ID.match(identifier) if isinstance(identifier, str) else None
