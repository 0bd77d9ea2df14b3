"""Reads and writes the file of a backup. The format, assignor-backup/1, is gzip of JSON lines. docs/formats.md
describes it.

- The first line is the header `{"format": "assignor-backup/1", ...}`. The header has the format, and the number of rows
  of each table.
- Each further line is a row such as `{"table": "groups", "group_id": ...}`. The rows are ordered by table.
- The last line `{"end": true, "counts": ..., "sha256": ...}` has the SHA-256 of all lines before it.

A backup gets its file name only after it is complete and synced to the disk. A reader yields rows while it reads the
file, and raises InputError at the end if the file is damaged. A caller that stores rows must therefore commit only
after the reader has yielded all rows without an error.
"""

import base64
import binascii
import gzip
import hashlib
import json
import os
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from assignor.errors import InputError
from operating_system.whole_files import input_errors, takes_the_name

FORMAT = "assignor-backup/1"

_LONGEST_LINE = 1 << 28
"""The longest line in bytes. A line with a definition has at most `request.max.bytes`. A line with a recorded rebalance
has at most a few megabytes.
"""

_QUICK = 6
"""The compression level of gzip."""

Row = Mapping[str, Any]

Progress = Callable[[int, int], None]
"""A function that is called with the number of finished rows and the number of all rows."""


class Header(NamedTuple):
    """The first line of a backup. `release`: the release of this project that wrote the backup. `schema`: the version
    of the database's schema. `created_ms`: the start of the backup. `database`: "sqlite" or "postgresql". `counts`: the
    number of rows, by table.
    """

    release: str
    schema: str
    created_ms: int
    database: str
    counts: Mapping[str, int]


class BackupWriter(AbstractContextManager["BackupWriter"]):
    """Writes a backup to a temporary file beside `file`; `finish` renames the temporary file to `file`. If the block
    ends without `finish`, the temporary file is deleted. Raises InputError when a file cannot be written.
    """

    def __init__(self, file: Path, header: Header, progress: Progress) -> None:
        self._file, self._header, self._progress = file, header, progress
        self._sha = hashlib.sha256()
        self._counts: Counter[str] = Counter()
        with input_errors("cannot be written", file):
            if not takes_the_name(file):
                raise InputError("is no file, and a backup would take its name: name another one", str(file))
            handle, name = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".part", dir=file.parent)  # mode 0600
            self._part = Path(name)
            self._raw = os.fdopen(handle, "wb")
            self._packed = gzip.GzipFile("", "wb", _QUICK, self._raw, header.created_ms // 1000)
            self._write({"format": FORMAT, **header._asdict()})

    def add(self, table: str, row: Row) -> None:
        """Write a row. Values that are bytes are written as base64."""
        self._counts[table] += 1
        with input_errors("cannot be written", self._file):
            self._write({"table": table, **row})
        self._progress(self._counts.total(), sum(self._header.counts.values()))

    def finish(self) -> str:
        """Sync the temporary file and rename it to `file`. Returns the SHA-256 of the file's lines.

        Raises InputError if the number of rows differs from the number in the header, because `restore` would refuse
        such a file.
        """
        expected = {name: count for name, count in self._header.counts.items() if count}
        if dict(self._counts) != expected:
            raise InputError(
                f"is not written: {_rows_of(expected)} were counted in the database, and {_rows_of(self._counts)} "
                "could be read",
                str(self._file),
            )
        digest = self._sha.hexdigest()
        with input_errors("cannot be written", self._file):
            self._write({"end": True, "counts": dict(self._counts), "sha256": digest})
            self._packed.close()
            self._raw.flush()
            os.fsync(self._raw.fileno())
            self._raw.close()
            self._part.rename(self._file)
            directory = os.open(self._file.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        return digest

    def _write(self, document: Row) -> None:
        line = json.dumps(document, separators=(",", ":"), default=_as_text).encode("ascii") + b"\n"
        self._sha.update(line)
        self._packed.write(line)

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        # on a full disk, closing the file also fails, because the buffered data cannot be written
        with suppress(OSError):
            self._raw.close()
        self._part.unlink(missing_ok=True)


class BackupReader:
    """Reads a backup from its beginning. Raises InputError, whose message names the fault of the file.

    `header`: the first line of the backup.
    """

    def __init__(self, file: Path, progress: Progress | None = None) -> None:
        self._file = file
        self._progress = progress
        self._sha = hashlib.sha256()

    def __enter__(self) -> Self:
        with self._reading():
            self._opened = gzip.open(self._file, "rb")
        try:
            self.header = self._header()
        except InputError:
            self._opened.close()
            raise
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._opened.close()

    def _header(self) -> Header:
        document = self._line("line 1")
        found = document.get("format")
        if found != FORMAT:
            raise self._unusable(f"is not a backup that this release reads: its format is {found!r}, not {FORMAT!r}")
        try:
            header = Header(**{name: document[name] for name in Header._fields})
        except KeyError as missing:
            raise self._unusable(f"is damaged: its first line has no {missing}") from None
        if not isinstance(header.schema, str) or not isinstance(header.counts, dict):
            raise self._unusable("is damaged: its first line is not that of a backup")
        return header

    def rows(self, binary: Mapping[str, frozenset[str]]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields each row with its table, and checks the whole file at the end.

        `binary`: the columns with bytes, by table. If `binary` does not contain the table of a row, the row is refused.
        """
        found: Counter[str] = Counter()
        number = 1
        while True:
            number += 1
            before = self._sha.hexdigest()
            document = self._line(f"line {number}")
            if document.get("end") is True:
                break
            table = document.pop("table", None)
            if table not in binary:
                raise self._unusable(f"is damaged: line {number} is a row of {table!r}, which is not a table")
            found[table] += 1
            yield table, self._with_bytes(document, binary[table], number)
            if self._progress is not None:
                self._progress(found.total(), sum(self.header.counts.values()))
        if document.get("sha256") != before:
            raise self._unusable("is damaged: its lines have been changed, the SHA-256 does not fit")
        expected = {name: count for name, count in self.header.counts.items() if count}
        if document.get("counts") != dict(found) or dict(found) != expected:
            raise self._unusable("is damaged: it does not have as many rows as it says")
        with self._reading():
            if self._opened.read(1):
                raise self._unusable("is damaged: there is more after its last line")

    def _with_bytes(self, row: dict[str, Any], binary: frozenset[str], number: int) -> dict[str, Any]:
        try:
            return {
                name: base64.b64decode(value, validate=True) if name in binary else value for name, value in row.items()
            }
        except (TypeError, ValueError, binascii.Error):
            raise self._unusable(f"is damaged: line {number} has bytes that are not base64") from None

    def _line(self, called: str) -> dict[str, Any]:
        with self._reading():
            line = self._opened.readline(_LONGEST_LINE)
        if not line.endswith(b"\n"):
            raise self._unusable("is cut off: its last line is missing")
        self._sha.update(line)
        try:
            document = json.loads(line)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise self._unusable(f"is no backup, or damaged: {called} is not a JSON object")
        return document

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except EOFError:
            raise self._unusable("is cut off: it ends in the middle") from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise self._unusable(f"is no backup, or damaged: {error}") from None
        except OSError as error:
            raise self._unusable(f"cannot be read: {error.strerror or error}") from None

    def _unusable(self, problem: str) -> InputError:
        return InputError(problem, str(self._file))


def _rows_of(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} of {name}" for name, count in counts.items()) or "no rows"


def _as_text(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")
