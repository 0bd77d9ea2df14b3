"""A file that appears as a whole or not at all.

Rules: the bytes go to a temporary file beside the target, which is renamed to the target at the end. A link stays a
link, and the file that it leads to is replaced. A target that is not a regular file, such as `/dev/null` or a pipe, is
written to directly: a rename would replace the device for the whole machine.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from typing import BinaryIO


def takes_the_name(path: str | os.PathLike[str]) -> bool:
    """Whether a file may be renamed to this path: the path is free, or is a regular file. Raises OSError."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return True


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str], opener: Callable[[str, int], int] | None = None) -> Iterator[BinaryIO]:
    """Bytes go to `path` when the block ends without an error. `opener`: as `open` takes it. Raises OSError."""
    if not takes_the_name(path):
        with open(path, "wb") as stream:
            yield stream
        return
    target = os.path.realpath(path)
    partial = f"{target}.partial"
    try:
        with open(partial, "wb", opener=opener) as stream:
            yield stream
        os.replace(partial, target)
    finally:
        with contextlib.suppress(OSError):
            os.remove(partial)
