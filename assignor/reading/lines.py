"""Reading whatever `sources.py` finds, line by line, with a progress bar on stderr when that is a terminal.

A line that cannot be used does not end the run: it comes back as a line with a problem, and the next one is read.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.progress import Progress, TaskID

from assignor.errors import InputError
from assignor.reading.sources import (
    DamagedSource,
    RawLine,
    Source,
    SourceKind,
    find_sources,
    lines_of,
    opened,
    plug_in_lines,
    shown,
)
from assignor.recording import document_of_line

_BY_PLUG_IN = frozenset({SourceKind.PARQUET, SourceKind.DATABASE})


@dataclass(frozen=True, slots=True)
class Line:
    """`document` is None when there is a `problem`. `where`: file:line. `content`: the line as it was, None where the
    source could not be read any further.
    """

    where: str
    document: Mapping[str, object] | None = None
    problem: str | None = None
    content: bytes | None = None


def read_lines(inputs: Sequence[str]) -> Iterator[Line]:
    """Every line that is not blank, of all inputs. Raises InputError for an input that cannot be opened."""
    sources = find_sources(inputs)
    console = Console(stderr=True)
    with Progress(console=console, transient=True, redirect_stdout=False, disable=not sys.stderr.isatty()) as progress:
        for source in sources:
            bar = progress.add_task(shown(source.name), total=None)
            try:
                for line in _shown_lines(source, progress, bar):
                    yield as_read(line)
            except DamagedSource as error:
                yield Line(error.where or source.name, problem=error.reason)
            progress.stop_task(bar)


def as_read(raw: RawLine) -> Line:
    """The line's document, or what is wrong with it."""
    try:
        return Line(raw.where, document_of_line(raw.content), content=raw.content)
    except InputError as error:
        return Line(raw.where, problem=str(error), content=raw.content)


def _shown_lines(source: Source, progress: Progress, bar: TaskID) -> Iterator[RawLine]:
    if source.kind in _BY_PLUG_IN:
        for line in plug_in_lines(source):
            progress.advance(bar)
            yield line
        return
    with opened(source) as raw:
        progress.update(bar, total=_size(raw))
        for line in lines_of(source, raw):
            _advance(progress, bar, raw)
            yield line


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
