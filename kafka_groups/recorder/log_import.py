"""`assignor record --from-log`: what the assignors of JVM members logged, as `placement/1` lines.

This is for groups whose `__consumer_offsets` cannot be read. A log has no offsets and no keys, so each run reads all of
it and writes the whole output.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TextIO

from assignor.errors import InputError
from assignor.recording import line_of_document
from kafka_groups.recorder.jvm_log import placements_from_log
from operating_system.private_files import private_opener
from operating_system.whole_files import whole_file

STDIN = "-"
_GZIP_MAGIC = b"\x1f\x8b"


def import_log(
    log: str, output: Path | None, configs: Mapping[str, object], assignor: str | None, say: Callable[[str], None]
) -> int:
    """Write the lines and return their number. `log`: a file, plain or gzip, or `-` for stdin. Raises InputError."""
    count = 0
    with _lines(log) as lines, _written(output) as stream:
        for document in placements_from_log(lines, configs, assignor=assignor, on_skipped=say):
            stream.write(line_of_document(document) + "\n")
            if output is None:
                stream.flush()
            count += 1
    return count


@contextlib.contextmanager
def _lines(log: str) -> Iterator[TextIO]:
    if log == STDIN:
        yield sys.stdin
        return
    try:
        with open(log, "rb") as raw:
            is_gzip = raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
            raw.seek(0)
            stream = gzip.GzipFile(fileobj=raw) if is_gzip else raw
            yield io.TextIOWrapper(stream, encoding="utf-8", errors="replace")
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be read: {reason}", log) from None


@contextlib.contextmanager
def _written(output: Path | None) -> Iterator[TextIO]:
    """A stream to the output. A file appears only once it is complete."""
    if output is None:
        yield sys.stdout
        return
    try:
        with whole_file(output, private_opener) as raw, io.TextIOWrapper(raw, encoding="utf-8") as stream:
            yield stream
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", str(output)) from None
