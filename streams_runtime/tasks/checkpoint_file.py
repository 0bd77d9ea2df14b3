"""A task's checkpoint file: up to which changelog offset each of its persistent stores is complete on disk.

Rules: `<task directory>/.checkpoint` is either the last file that was written whole, or not there. A new one is written
under another name in the same directory, synced and renamed; then the directory is synced. When there are no offsets,
there is no file. A file that cannot be parsed is renamed to `.checkpoint.corrupt-<n>`, for a person to look at. Offsets
are those of the last record applied. `offset_checkpoint` has the text. Source: `OffsetCheckpoint`.

Differs from Kafka: a broken file is set aside and does not end the thread. A file that cannot be written is an error
and not a warning, since a disk that refuses it will refuse the stores, too.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from assignor.errors import DecodeError
from assignor.operating_system import with_advice
from assignor.types import TopicPartition
from streams_runtime.common.errors import ProcessorStateError
from streams_runtime.tasks.file_system import SYSTEM_FILES, FileSystem
from streams_runtime.tasks.offset_checkpoint import OFFSET_UNKNOWN, format_checkpoint, parse_checkpoint

CHECKPOINT_FILE_NAME = ".checkpoint"
"""A file whose name begins with this belongs to the checkpoint and is not state."""

_logger = logging.getLogger(__name__)


class LoadedCheckpoint(NamedTuple):
    """`set_aside`: the new path of a broken file; None when the file was fine or missing."""

    offsets: dict[TopicPartition, int]
    set_aside: Path | None = None


class CheckpointFile:
    """Only the holder of the lock of the task's directory writes it. Every OSError becomes a ProcessorStateError."""

    __slots__ = ("_files", "path")

    def __init__(self, task_directory: Path, files: FileSystem = SYSTEM_FILES) -> None:
        self._files = files
        self.path = task_directory / CHECKPOINT_FILE_NAME

    def read(self) -> dict[TopicPartition, int]:
        """The offsets in the file, OFFSET_UNKNOWN included; empty when there is no file. DecodeError: it is broken."""
        try:
            data = self._files.read(self.path)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ProcessorStateError(
                f"the checkpoint file {self.path} cannot be read: {with_advice(error)}"
            ) from error
        return parse_checkpoint(data)

    def load(self) -> LoadedCheckpoint:
        """As `read`, but a broken file is renamed, with a warning, and there are no offsets then."""
        try:
            return LoadedCheckpoint(self.read())
        except DecodeError as error:
            aside = self._set_aside()
            _logger.warning("checkpoint file %s is broken (%s) and was set aside as %s", self.path, error, aside.name)
            return LoadedCheckpoint({}, aside)

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """On return the file holds these offsets, even if the machine fails.

        Raises IllegalStateError, before anything is touched, for a negative offset that is not OFFSET_UNKNOWN.
        """
        text = format_checkpoint(offsets)
        if text is None:
            self.delete()
            return
        try:
            self._files.write_whole(self.path, text.encode(), written_as=f"{CHECKPOINT_FILE_NAME}.tmp", synced=True)
        except OSError as error:
            raise ProcessorStateError(f"the checkpoint file {self.path} cannot be written: {error}") from error

    def delete(self) -> None:
        """On return there is no file, even if the machine fails."""
        try:
            self._files.delete(self.path)
            self._files.sync_directory(self.path.parent)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise ProcessorStateError(f"the checkpoint file {self.path} cannot be deleted: {error}") from error

    def _set_aside(self) -> Path:
        number = 1
        while self._files.exists(aside := self.path.with_name(f"{CHECKPOINT_FILE_NAME}.corrupt-{number}")):
            number += 1
        try:
            self._files.rename(self.path, aside)
            self._files.sync_directory(self.path.parent)
        except OSError as error:
            raise ProcessorStateError(f"the broken checkpoint file {self.path} cannot be renamed: {error}") from error
        return aside


def next_offsets(checkpointed: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Checkpointed offsets as a thread reports them to the leader: that of the next record, 0 when unknown."""
    return {p: 0 if offset == OFFSET_UNKNOWN else offset + 1 for p, offset in checkpointed.items()}
