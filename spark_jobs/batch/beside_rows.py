"""What a command keeps in its output directory beside the rows: inputs that it had to spool, and a summary as JSON."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from assignor.errors import InputError
from spark_jobs.batch.output_directory import TEMPORARY, check_no_url

_SPOOL = "spool-"


@contextlib.contextmanager
def spool_directory(output: Path) -> Iterator[Path]:
    """A directory of this process below `output`, where executors find it. Gone in the end, and `output` with it when
    there was no run, and so is what processes that were killed have left. Raises InputError when it cannot be made.
    """
    check_no_url(output)
    parent = output.absolute() / TEMPORARY
    spool = parent / f"{_SPOOL}{uuid.uuid4().hex}"  # a process id may be another machine's, too
    made = not parent.parent.exists()
    _remove_abandoned(parent)
    try:
        spool.mkdir(parents=True)
        held = os.open(spool, os.O_RDONLY | os.O_CLOEXEC)
    except (FileExistsError, NotADirectoryError) as error:
        raise InputError("is not a directory; choose another --output", str(output)) from error
    except OSError as error:
        raise InputError(f"cannot be used: {error.strerror or error}; choose another --output", str(output)) from error
    try:
        with contextlib.suppress(OSError):  # where directories cannot be locked, nobody takes another's for abandoned
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield spool
    finally:
        shutil.rmtree(spool, ignore_errors=True)
        os.close(held)
        with contextlib.suppress(OSError):
            parent.rmdir()  # not when another run has something in it
        if made:
            with contextlib.suppress(OSError):
                parent.parent.rmdir()  # not when there was a run


def _remove_abandoned(parent: Path) -> None:
    """The spools that nobody holds: their processes were killed."""
    for spool in parent.glob(f"{_SPOOL}*"):
        with contextlib.suppress(OSError):
            held = os.open(spool, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(spool, ignore_errors=True)
            finally:
                os.close(held)


def write_document(file: Path, document: object) -> None:
    """As JSON, complete or not at all. Raises InputError."""
    partial = file.with_name(f".{file.name}{TEMPORARY}")
    try:
        partial.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(partial, file)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", str(file)) from None
