"""Where the audit log's lines go: to a file, in the order in which they were written, or to the service's log.

A line is one JSON object of ASCII, so that nothing a caller sent begins a line of its own. It is handed to the
operating system before `write` returns: a crash of the process loses none. Only power loss may, because the file is not
synced. The file is created with mode 0600, and opened anew within a second after it was moved away, as logrotate does.

A file that cannot be written holds nobody up: the service goes on, says so in its log once, and counts each line that
was lost. Members could not join or leave otherwise, because the disk of a log is full.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

from coordinator_api.settings import SettingsError

_LOOK_AGAIN_S = 1.0
_EVENT = "audit"


class AuditLog:
    """Of one service, on its event loop. `on_lost`: called for each line that could not be written."""

    def __init__(self, file: Path | None) -> None:
        """`file`: None for the service's log. Raises SettingsError when it cannot be written."""
        self.on_lost: Callable[[], object] = lambda: None
        self._logger = structlog.get_logger("coordinator_api")
        self._path = file
        self._file: _AppendedFile | None = None
        self._look_at_s = 0.0
        self._lost = 0
        if file is not None:
            try:
                self._file = _AppendedFile(file)
            except OSError as error:
                raise SettingsError(f"audit.log.file: {file} cannot be written: {error.strerror or error}") from None

    def write(self, line: Mapping[str, object]) -> None:
        """`line`: the fields, in their order."""
        if self._path is None:
            self._logger.info(_EVENT, **line)
            return
        try:
            self._opened(self._path).append(json.dumps(line).encode("ascii") + b"\n")
        except OSError as error:
            self._note_loss(error)
            return
        if self._lost:
            self._logger.warning("audit_written_again", file=str(self._path), lost=self._lost)
            self._lost = 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self, path: Path) -> _AppendedFile:
        now_s = time.monotonic()
        if self._file is not None and now_s >= self._look_at_s:
            self._look_at_s = now_s + _LOOK_AGAIN_S
            if not self._file.is_at(path):
                self.close()
        if self._file is None:
            self._file = _AppendedFile(path)
        return self._file

    def _note_loss(self, error: OSError) -> None:
        self.on_lost()
        if not self._lost:
            self._logger.error("audit_not_written", file=str(self._path), error=str(error))
        self._lost += 1


class _AppendedFile:
    """Raises OSError when it cannot be opened."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(self._descriptor)
            raise OSError("it is no regular file")
        self._identity = (status.st_dev, status.st_ino)
        # a full disk may have cut the last line short
        self._is_torn = status.st_size > 0 and os.pread(self._descriptor, 1, status.st_size - 1) != b"\n"

    def is_at(self, path: Path) -> bool:
        """Whether it still is what the path names."""
        try:
            status = os.stat(path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._identity

    def append(self, line: bytes) -> None:
        """Raises OSError when it was not written, or not whole."""
        whole = b"\n" + line if self._is_torn else line
        written = os.write(self._descriptor, whole)
        if written:
            self._is_torn = whole[written - 1 : written] != b"\n"
        if written < len(whole):
            raise OSError("only a part of the line could be written")

    def close(self) -> None:
        os.close(self._descriptor)


def check_audit_log(file: Path | None) -> None:
    """Raises SettingsError when the file cannot be written."""
    AuditLog(file).close()
