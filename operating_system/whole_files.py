"""Functions for files that the user names: errors of the system become InputErrors, and files are written as a whole or
not at all.

Rules: the bytes are written to a temporary file in the directory of the target, and this file is renamed to the target
at the end. If the target is a symbolic link, the link stays, and the file to which the link leads is replaced. A target
that is not a regular file, such as `/dev/null` or a pipe, is written directly, because a rename would replace the
device for the whole machine.
"""

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from typing import BinaryIO

from assignor.errors import AssignorFault, InputError


@contextlib.contextmanager
def input_errors(problem: str, path: str | os.PathLike[str], *kinds: type[Exception]) -> Iterator[None]:
    """In a block of this context manager, an OSError becomes an InputError about the file `path`, such as `F: cannot be
    read: No such file or directory`. `kinds`: other exceptions that become an InputError too; an AssignorFault is never
    converted.
    """
    caught: tuple[type[Exception], ...] = (OSError, *kinds)
    try:
        yield
    except caught as error:
        if isinstance(error, AssignorFault):
            raise
        raise InputError(f"{problem}: {getattr(error, 'strerror', None) or error}", os.fspath(path)) from None


def takes_the_name(path: str | os.PathLike[str]) -> bool:
    """True if a file may be renamed to this path: the path does not exist, or is a regular file. Raises OSError."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return True


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str], opener: Callable[[str, int], int] | None = None) -> Iterator[BinaryIO]:
    """A context manager that returns a stream. The written bytes appear at `path` when the block ends without an error.
    `opener`: the argument `opener` of Python's `open`. Raises OSError.
    """
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
