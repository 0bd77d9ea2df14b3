"""Files of a command in its output directory beside the rows: spooled inputs, and a summary as JSON."""

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
from spark_engine.batch.output_directory import TEMPORARY, check_no_url

_SPOOL = "spool-"


@contextlib.contextmanager
def spool_directory(output: Path) -> Iterator[Path]:
    """A directory of this process below `output`, where executors find it. It is removed at the end, together with
    leftovers of killed processes, and with `output` when no run took place. Raises InputError when it cannot be
    created.
    """
    check_no_url(output)
    parent = output.absolute() / TEMPORARY
    spool = parent / f"{_SPOOL}{uuid.uuid4().hex}"  # not the process id, which may exist on another machine too
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
        with contextlib.suppress(OSError):  # without a lock on a directory, no process removes the directory of another
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield spool
    finally:
        shutil.rmtree(spool, ignore_errors=True)
        os.close(held)
        with contextlib.suppress(OSError):
            parent.rmdir()  # fails while another run uses the directory
        if made:
            with contextlib.suppress(OSError):
                parent.parent.rmdir()  # fails if a run left files there


def _remove_abandoned(parent: Path) -> None:
    """Remove spools without a lock: their processes were killed."""
    for spool in parent.glob(f"{_SPOOL}*"):
        with contextlib.suppress(OSError):
            held = os.open(spool, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(spool, ignore_errors=True)
            finally:
                os.close(held)


def write_document(file: Path, document: object) -> None:
    """Write JSON; the file appears only once it is complete. Raises InputError."""
    partial = file.with_name(f".{file.name}{TEMPORARY}")
    try:
        partial.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(partial, file)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", str(file)) from None
