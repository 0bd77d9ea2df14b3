"""Files with tokens, which a service reads again when they have changed.

Rules: a file that has changed is read once it is the same in two checks, so that nothing half-written counts. A file
that cannot be read, that is no text of tokens, or that has no token leaves its former tokens in force: a mistake
neither locks anybody out nor lets anybody in. The mistake is reported once, and again after the next change.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from assignor.errors import InputError
from coordinator_client.access.credentials import Credentials
from coordinator_client.access.tokens import TokenEntry, checked_token

CHECK_INTERVAL_S = 1.0
"""How often a service checks its files for changes."""

MOST_BYTES = 1_048_576
"""Of one file, some ten thousand tokens."""

Parse = Callable[[str, str], tuple[TokenEntry, ...]]
"""The tokens of a text. Takes the text, and its name for errors. Raises InputError."""


class TokenFiles:
    """Of one service. `reload_changed` may be called by another thread than the one that answers calls, by one at a
    time.

    `report`: gets the name of a setting and a sentence about its file.
    """

    def __init__(self, credentials: Credentials, report: Callable[[str, str], None]) -> None:
        self._credentials = credentials
        self._report = report
        self._files: list[_WatchedFile] = []

    def add(self, source: str, path: Path, parse: Parse) -> None:
        """Reads it. `source`: the name of the setting. Raises InputError when it has no tokens."""
        file = _WatchedFile(source, path, parse)
        self._credentials.replace(source, file.read())
        self._files.append(file)

    @property
    def are_none(self) -> bool:
        return not self._files

    def reload_changed(self) -> None:
        """Read the files that have changed, and put their tokens in force."""
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
        """Whether it differs from the file that was read, and has not changed since the last check."""
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
    """The one token of a file, for a program that sends it: white space around it does not count.

    `where`: what names the file. Raises InputError, which has nothing of the token.
    """
    token = text_of(path, where).strip()
    if not token:
        raise InputError(f"{path} has no token", where)
    return checked_token(token, where, f"that of {path}")


def text_of(path: Path, where: str) -> str:
    """Raises InputError, which has none of the text."""
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
    """Another value once one of the files was written or replaced."""
    return tuple(_state_of_file(each) for each in files)


def _state_of_file(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
