"""Lines of a file or of stdin, as they come: what is there is handed out before more is waited for."""

from __future__ import annotations

import select
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, BinaryIO

from assignor.errors import InputError

STDIN = "-"
_CHUNK_BYTES = 256 * 1024


def name_of(source: str) -> str:
    """As messages show it."""
    return "stdin" if source == STDIN else source


def input_lines(source: str, about_to_wait: Callable[[], None]) -> Iterator[tuple[int, bytes]]:
    """Each line without its end, and its number from 1 on. The last line needs no end. `source`: a file, or `-`.

    `about_to_wait`: called when all lines that are there were taken, and the next one is not there yet. Raises
    InputError for a file that cannot be read.
    """
    with ExitStack() as closing:
        try:
            stream = sys.stdin.buffer if source == STDIN else closing.enter_context(Path(source).open("rb"))
            number, rest = 0, b""
            while chunk := _next_chunk(stream, about_to_wait):
                lines = (rest + chunk).split(b"\n")
                rest = lines.pop()
                for line in lines:
                    number += 1
                    yield number, line.removesuffix(b"\r")
            if rest:
                yield number + 1, rest.removesuffix(b"\r")
        except OSError as error:
            if error.filename is None and not isinstance(error, IsADirectoryError):
                raise  # of the consumer of these lines
            raise InputError(f"cannot be read: {error.strerror}", name_of(source)) from None


def _next_chunk(stream: BinaryIO | IO[bytes], about_to_wait: Callable[[], None]) -> bytes:
    try:
        is_there = bool(select.select([stream], [], [], 0)[0])
    except (OSError, ValueError):  # no file of the system: its content is all there
        is_there = True
    if not is_there:
        about_to_wait()
    return stream.read1(_CHUNK_BYTES)  # type: ignore[union-attr,no-any-return]
