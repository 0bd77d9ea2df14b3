"""Reads the files that contain a service's tokens. A file is read again after it has changed.

Rules: when a check finds a changed file, the file is read only if the next check finds no further change. So no
half-written file is read. If a file cannot be read, cannot be parsed, or has no token, its old tokens stay in force. So
an error in a file never locks callers out. An error is reported once for each change of the file.
"""

from collections.abc import Callable
from pathlib import Path

from assignor.errors import InputError
from coordinator_client.access.credentials import Credentials
from coordinator_client.access.tokens import TokenEntry, checked_token

CHECK_INTERVAL_S = 1.0
"""The interval at which a service checks its token files for changes."""

MOST_BYTES = 1_048_576
"""The size limit of one token file, in bytes. A file of this size has about ten thousand tokens."""

Parse = Callable[[str, str], tuple[TokenEntry, ...]]
"""The type of a function that parses a text of tokens. The function's first argument is the text, and its second
argument is the name of the text in error messages. Raises InputError.
"""


class TokenFiles:
    """The token files of one service. Only one thread at a time may call `reload_changed`. Other threads may answer the
    service's calls at the same time.

    `report`: the function that reports a change or an error of a file. The arguments of `report` are the name of the
    setting and a message.
    """

    def __init__(self, credentials: Credentials, report: Callable[[str, str], None]) -> None:
        self._credentials = credentials
        self._report = report
        self._files: list[_WatchedFile] = []

    def add(self, source: str, path: Path, parse: Parse) -> None:
        """Reads a token file, and adds it to the files that `reload_changed` checks. `source`: the name of the setting
        that names the file. Raises InputError if the file cannot be used or has no tokens.
        """
        file = _WatchedFile(source, path, parse)
        self._credentials.replace(source, file.read())
        self._files.append(file)

    @property
    def are_none(self) -> bool:
        return not self._files

    def reload_changed(self) -> None:
        """Reads each changed file, and replaces the tokens that were read from it before."""
        for file in self._files:
            if not file.is_new():
                continue
            try:
                entries = file.read()
            except InputError as error:
                self._report(file.source, f"{error}; the tokens that it had before stay in force")
                continue
            self._credentials.replace(file.source, entries)
            self._report(file.source, f"{file.path} has changed: {len(entries)} tokens are in force")


class _WatchedFile:
    def __init__(self, source: str, path: Path, parse: Parse) -> None:
        self.source, self.path, self._parse = source, path, parse
        self._read: tuple[object, ...] | None = None
        self._waiting: tuple[object, ...] | None = None

    def is_new(self) -> bool:
        """Returns True if the file has changed since it was read, and has not changed since the last check."""
        seen = state_of(self.path)
        has_rested = seen == self._waiting
        self._waiting = seen
        return seen != self._read and has_rested

    def read(self) -> tuple[TokenEntry, ...]:
        self._read = self._waiting = state_of(self.path)
        entries = self._parse(text_of(self.path, self.source), f"{self.source}: {self.path}")
        if not entries:
            raise InputError(f"{self.path} has no token", self.source)
        return entries


def token_in(path: Path, where: str) -> str:
    """Returns the token in the file at `path`, without the white space around it.

    `where`: the option or variable that contains the file's path. Raises InputError; its message shows no part of the
    token.
    """
    token = text_of(path, where).strip()
    if not token:
        raise InputError(f"{path} has no token", where)
    return checked_token(token, where, f"that of {path}")


def text_of(path: Path, where: str) -> str:
    """Returns the text of a file. The file may have at most `MOST_BYTES` bytes. Raises InputError; its message shows no
    part of the text.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise InputError(f"{path} has more than {MOST_BYTES} bytes", where)
        return content.decode("utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}", where) from None
    except UnicodeDecodeError:
        raise InputError(f"{path} cannot be read: it is not text", where) from None
    except ValueError:  # the path has a NUL character
        raise InputError("is no name of a file", where) from None


def state_of(*files: Path) -> tuple[object, ...]:
    """Returns a value that changes when one of the files is written or replaced."""
    return tuple(_state_of_file(each) for each in files)


def _state_of_file(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
