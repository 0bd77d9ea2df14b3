"""Finds and reads the sources of recordings: JSON Lines files (plain or gzip), Parquet files, directories, the database
of a coordinator, and stdin.

The kind of a file is recognised by its first bytes, not by its name. This module reads JSON Lines. Other packages read
Parquet files and databases. A package registers its function `read(name) -> Iterator[RawLine]` under the name of the
kind of source, in the entry-point group `assignor.recordings`. So a user needs the libraries of Parquet or of databases
only to read such a source.
"""

import gzip
import io
import json
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from assignor.errors import InputError
from operating_system.whole_files import input_errors
from spark_engine.batch import RESULT_FORMAT, RESULT_MARK

STDIN = "-"
ENTRY_POINT_GROUP = "assignor.recordings"
SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".parquet")
"""The suffixes of the files that are read from a directory. A file that the user names directly may have any suffix.
"""

_GZIP_MAGIC = b"\x1f\x8b"
_PARQUET_MAGIC = b"PAR1"
_SQLITE_MAGIC = b"SQLite format 3\0"
_DATABASE_URL = re.compile(r"(?:sqlite|postgres|postgresql)(?:\+[\w+]*)?://")
_PASSWORD = re.compile(r"(?P<before>://[^:/@]*:)(?:[^/]*|[^@]*)@|(?P<parameter>[?&](?:ssl)?password=)[^&]*")


class SourceKind(StrEnum):
    JSONL = "jsonl"
    GZIP = "gzip"
    PARQUET = "parquet"
    DATABASE = "database"
    STDIN = "stdin"


_EXTRAS = {SourceKind.PARQUET: ("Parquet", "batch"), SourceKind.DATABASE: ("a database", "coordinator")}


class Source(NamedTuple):
    """One source of recordings. `name`: a path, the URL of a database, or `-`."""

    name: str
    kind: SourceKind


class RawLine(NamedTuple):
    """One line of JSON, not parsed yet. `where`: the position of the line in the form file:line. Parquet files and
    databases have other forms.
    """

    where: str
    content: bytes


class DamagedSource(InputError):
    """Raised if the rest of a source cannot be read. The lines before this position, and other sources, can still be
    used.
    """

    def __init__(self, reason: str, where: str) -> None:
        super().__init__(reason, where)
        self.reason = reason


def find_sources(inputs: Sequence[str]) -> list[Source]:
    """Returns the sources that the inputs name. For a directory, returns the recordings in it. Raises InputError if an
    input cannot be opened, or if a directory has no recordings.
    """
    sources: list[Source] = []
    for name in inputs:
        if name == STDIN:
            sources.append(Source(name, SourceKind.STDIN))
        elif _DATABASE_URL.match(name):
            sources.append(Source(name, SourceKind.DATABASE))
        elif os.path.isdir(name):
            sources += _in_directory(name)
        else:
            sources.append(Source(name, _kind_of_file(name)))
    return sources


class ReadingProgress:
    """Shows the progress while sources are read one after the other. This base class shows nothing."""

    def begin(self, name: str, size: int | None) -> None:
        """Called when a source is opened. `size`: the size of the source in bytes; None if it is not known. `name`: the
        name of the source, without a password.
        """

    def advance(self, position: int | None) -> None:
        """Called after each line. `position`: the number of bytes that have been read from the source so far; None for
        a source without positions, such as a pipe.
        """

    def end(self) -> None:
        """Called at the end of the source, or at an error that ends the source."""


NO_PROGRESS = ReadingProgress()


def raw_lines(source: Source, progress: ReadingProgress = NO_PROGRESS) -> Iterator[RawLine]:
    """Yields every line except blank lines. Raises InputError if the source cannot be opened. If the rest of a source
    cannot be read, raises DamagedSource after the last line that can be read.
    """
    if source.kind in _EXTRAS:
        progress.begin(shown(source.name), None)
        for line in plug_in_lines(source):
            progress.advance(None)
            yield line
        return
    with opened(source) as raw:
        progress.begin(shown(source.name), _size(raw))
        for line in lines_of(source, raw):
            progress.advance(_position(raw))
            yield line


def _size(raw: io.BufferedReader) -> int | None:
    try:
        return os.fstat(raw.fileno()).st_size or None
    except (OSError, ValueError):
        return None


def _position(raw: io.BufferedReader) -> int | None:
    try:
        return raw.tell()
    except OSError:  # a pipe has no position
        return None


def shown(name: str) -> str:
    """Returns the name of a source for messages. The URL of a database is shown without its password."""
    return _PASSWORD.sub(_hidden, name) if _DATABASE_URL.match(name) else name


def _hidden(match: re.Match[str]) -> str:
    return f"{match['before']}***@" if match["before"] else f"{match['parameter']}***"


@contextmanager
def opened(source: Source) -> Iterator[io.BufferedReader]:
    """Opens a source of JSON Lines as a stream of bytes. Raises InputError if the source cannot be opened."""
    if source.kind is SourceKind.STDIN:
        buffer = sys.stdin.buffer
        yield buffer if isinstance(buffer, io.BufferedReader) else io.BufferedReader(io.BytesIO(buffer.read()))
        return
    with input_errors("cannot be opened", source.name, ValueError):
        stream = open(source.name, "rb")  # `stream` is closed below. # noqa: SIM115
    with stream:
        yield stream


def lines_of(source: Source, raw: io.BufferedReader) -> Iterator[RawLine]:
    """Yields the lines of a source of JSON Lines. Detects gzip by the first bytes that it reads, because the source may
    be a pipe.
    """
    name = "stdin" if source.kind is SourceKind.STDIN else source.name
    number = 0
    try:
        kind = _kind_of_bytes(raw.peek(len(_SQLITE_MAGIC)))
        if kind in _EXTRAS:
            raise InputError(f"{_EXTRAS[kind][0]} is not read from a pipe: name the file", name)
        stream: Iterable[bytes] = raw
        if kind is SourceKind.GZIP:
            stream = gzip.open(raw)  # The caller closes `raw`. # noqa: SIM115
        for content in stream:
            number += 1
            if content.strip():
                yield RawLine(f"{name}:{number}", content)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DamagedSource(f"the gzip data is damaged: {error}", f"{name}:{number + 1}") from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", name) from None


def plug_in_lines(source: Source) -> Iterator[RawLine]:
    """Yields the lines of a source that another package reads. Raises InputError if this package is not installed, or
    if a line cannot be read.
    """
    what, extra = _EXTRAS[source.kind]
    try:
        read: Callable[[str], Iterable[RawLine]] = plug_in(ENTRY_POINT_GROUP, str(source.kind))
        yield from read(source.name)
    except ImportError as error:
        raise InputError(f"to read {what}: pip install 'assignor[{extra}]' ({error})", shown(source.name)) from None


def plug_in(group: str, name: str) -> Any:
    """Returns the function that another package has registered under a name. Raises ImportError if no package has
    registered this name, or if the function cannot be loaded.
    """
    for entry_point in entry_points(group=group, name=name):
        return entry_point.load()
    raise ImportError("no installed package registers it")


def _in_directory(directory: str) -> list[Source]:
    """Returns the recordings in the directory and its subdirectories, sorted by path. Leaves out files whose names
    begin with `_` or a dot. Spark gives such names to markers and unfinished files. Also leaves out the results of a
    replay or sweep, so users can keep results beside the recordings.
    """
    if _has_results(directory):
        raise InputError("has the results of a run, and no recordings", directory)

    def refuse(error: OSError) -> None:
        raise InputError(f"cannot be read: {error.strerror or error}", error.filename or directory)

    paths = []
    for parent, folders, files in os.walk(directory, onerror=refuse):
        folders[:] = [
            folder
            for folder in folders
            if not folder.startswith((".", "_")) and not _has_results(os.path.join(parent, folder))
        ]
        paths += [
            os.path.join(parent, file) for file in files if file.endswith(SUFFIXES) and not file.startswith((".", "_"))
        ]
    if not paths:
        looked_for = ", ".join(f"*{suffix}" for suffix in SUFFIXES)
        raise InputError(f"cannot be read: the directory has no recordings in it ({looked_for})", directory)
    return [Source(path, _kind_of_file(path)) for path in sorted(paths)]


def _has_results(directory: str) -> bool:
    try:
        with open(os.path.join(directory, RESULT_MARK), "rb") as stream:
            document = json.load(stream)
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.get("format") == RESULT_FORMAT


def _kind_of_file(path: str) -> SourceKind:
    with input_errors("cannot be opened", path, ValueError):
        if not stat.S_ISREG(os.stat(path).st_mode):
            return SourceKind.JSONL  # do not read the first bytes of a pipe here, because a pipe can be read only once
        with open(path, "rb") as stream:
            return _kind_of_bytes(stream.read(len(_SQLITE_MAGIC)))


def _kind_of_bytes(start: bytes) -> SourceKind:
    if start.startswith(_GZIP_MAGIC):
        return SourceKind.GZIP
    if start.startswith(_PARQUET_MAGIC):
        return SourceKind.PARQUET
    return SourceKind.DATABASE if start.startswith(_SQLITE_MAGIC) else SourceKind.JSONL
