"""Functions for files that the user names. Errors of the system become InputErrors. Files are written completely or not
at all. The bytes first go to a temporary file in the directory of the target. After the last byte, the temporary file
is renamed to the target. If the target is a symbolic link, the file to which the link leads is replaced, and the link
is not changed. A target that is not a regular file, such as `/dev/null` or a pipe, is written directly. A rename would
replace a device such as `/dev/null` by a plain file, for all programs of the machine.
"""

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from typing import BinaryIO

from assignor.errors import AssignorFault, InputError


@contextlib.contextmanager
def input_errors(problem: str, path: str | os.PathLike[str], *kinds: type[Exception]) -> Iterator[None]:
    """A context manager that turns an OSError in its block into an InputError about the file `path`. The message has a
    form such as `F: cannot be read: No such file or directory`. `kinds`: further exception types that become an
    InputError. An AssignorFault is never converted.
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
    """A context manager that yields a stream. When the block ends without an error, the written bytes appear at `path`.
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
