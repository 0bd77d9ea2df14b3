"""What a command keeps in its output directory beside the rows: inputs that it had to spool, and a summary as JSON."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from assignor.errors import InputError
from spark_jobs.batch.output_directory import TEMPORARY


@contextlib.contextmanager
def spool_directory(output: Path) -> Iterator[Path]:
    """A directory of this process below `output`, where executors find it. Gone in the end, and `output` with it when
    there was no run. Raises InputError when it cannot be made.
    """
    parent = output.absolute() / TEMPORARY
    spool = parent / f"spool-{os.getpid()}"
    made = not parent.parent.exists()
    try:
        spool.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InputError("is not a directory; choose another --output", str(output)) from error
    except OSError as error:
        raise InputError(f"cannot be used: {error.strerror or error}; choose another --output", str(output)) from error
    try:
        yield spool
    finally:
        shutil.rmtree(spool, ignore_errors=True)
        with contextlib.suppress(OSError):
            parent.rmdir()  # not when another run has something in it
        if made:
            with contextlib.suppress(OSError):
                parent.parent.rmdir()  # not when there was a run


def write_document(file: Path, document: object) -> None:
    """As JSON, complete or not at all. Raises InputError."""
    partial = file.with_name(f".{file.name}{TEMPORARY}")
    try:
        partial.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(partial, file)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", str(file)) from None
