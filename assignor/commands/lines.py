"""Reading files of JSON Lines: plain or gzip, `-` for stdin, with a progress bar on stderr when that is a terminal.

A line that cannot be used does not end the run: it comes back as a line with a problem, and the next one is read.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import Progress, TaskID

from assignor.errors import InputError
from assignor.recording import document_of_line

STDIN = "-"
_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Line:
    """`document` is None when there is a `problem`. `where`: file:line."""

    where: str
    document: Mapping[str, object] | None = None
    problem: str | None = None


def read_lines(files: Sequence[str]) -> Iterator[Line]:
    """Every line that is not blank, of all files. Raises InputError for a file that cannot be opened."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, redirect_stdout=False, disable=not sys.stderr.isatty()) as progress:
        for file in files:
            with _opened(file) as raw:
                bar = progress.add_task(file, total=_size(raw))
                for line in _lines(file, raw):
                    _advance(progress, bar, raw)
                    yield line


def _lines(file: str, raw: io.BufferedReader) -> Iterator[Line]:
    name = "stdin" if file == STDIN else file
    number = 0
    try:
        stream: Iterable[bytes] = raw
        if raw.peek(2)[:2] == _GZIP_MAGIC:
            stream = gzip.open(raw)  # noqa: SIM115 - it only wraps `raw`, which the caller closes
        for content in stream:
            number += 1
            if content.strip():
                yield _line(f"{name}:{number}", content)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        yield Line(f"{name}:{number + 1}", problem=f"the gzip data is damaged: {error}")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", name) from None


def _line(where: str, content: bytes) -> Line:
    try:
        return Line(where, document_of_line(content))
    except InputError as error:
        return Line(where, problem=str(error))


@contextmanager
def _opened(file: str) -> Iterator[io.BufferedReader]:
    if file == STDIN:
        buffer = sys.stdin.buffer
        yield buffer if isinstance(buffer, io.BufferedReader) else io.BufferedReader(io.BytesIO(buffer.read()))
        return
    try:
        stream = open(file, "rb")  # noqa: SIM115 - closed below
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be opened: {getattr(error, 'strerror', None) or error}", file) from None
    with stream:
        yield stream


def _size(raw: io.BufferedReader) -> int | None:
    try:
        return os.fstat(raw.fileno()).st_size or None
    except (OSError, ValueError):
        return None


def _advance(progress: Progress, bar: TaskID, raw: io.BufferedReader) -> None:
    if not progress.disable:
        try:
            progress.update(bar, completed=raw.tell())
        except OSError:  # a pipe has no position
            progress.advance(bar)
