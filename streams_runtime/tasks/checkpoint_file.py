"""Reads and writes the checkpoint file of a Streams task. For each persistent store, the file has the changelog offset
up to which the store on disk is complete.

Rules: the file `<task directory>/.checkpoint` is either complete or does not exist. A new file is first written under a
temporary name in the same directory, then synced and renamed. After the rename, the directory is synced. A Streams task
without offsets has no checkpoint file. If the file cannot be parsed, it is renamed to `.checkpoint.corrupt-<n>`, so
that an operator can inspect it.

The first line of the file is the format version, 0. The second line is the number of entries. Each following line is
one entry of the form `topic partition offset`. The offset in an entry belongs to the last record that was applied to
the store.
Source: `OffsetCheckpoint`.

Differs from Kafka: a broken file is renamed and does not end the thread. If the file cannot be written, an error is
raised here, because the stores on the same disk could not be written either. If Kafka cannot write the file, it only
logs a warning.
"""

import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from assignor.errors import DecodeError, IllegalStateError
from assignor.types import Offsets, TopicPartition
from streams_runtime.tasks.file_system import SYSTEM_FILES, FileSystem, as_state_errors

CHECKPOINT_FILE_NAME = ".checkpoint"
"""The name of the checkpoint file. All files with names that begin with CHECKPOINT_FILE_NAME belong to the checkpoint,
and do not count as state.
"""

OFFSET_UNKNOWN = -4
"""The value in the file for a store that is on disk, but has no known offset."""

_VERSION = 0
_WHITESPACE = re.compile(r"[ \t\n\v\f\r]+")
_LINE = re.compile(r"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_NUMBER = re.compile(r"[+-]?[0-9]+\Z")

_logger = logging.getLogger(__name__)


class CheckpointFile:
    """The checkpoint file of one task. Only the thread that has locked the task's directory may write the checkpoint
    file. The methods convert every OSError to a ProcessorStateError.
    """

    def __init__(self, task_directory: Path, files: FileSystem = SYSTEM_FILES) -> None:
        self._files = files
        self.path = task_directory / CHECKPOINT_FILE_NAME

    def read(self) -> Offsets:
        """Returns the offsets in the file, which may be OFFSET_UNKNOWN. Returns an empty mapping if there is no file.
        Raises DecodeError for a broken file.
        """
        with as_state_errors(f"the checkpoint file {self.path} cannot be read"):
            try:
                data = self._files.read(self.path)
            except FileNotFoundError:
                return {}
        return parse_checkpoint(data)

    def load(self) -> Offsets | None:
        """Returns the result of `read`. If the file is broken, renames the file, logs a warning and returns None."""
        try:
            return self.read()
        except DecodeError as error:
            aside = self._set_aside()
            _logger.warning("checkpoint file %s is broken (%s) and was set aside as %s", self.path, error, aside.name)
            return None

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write the file. After `write` has returned, the file has these offsets even if the machine fails. If an
        offset is negative and not OFFSET_UNKNOWN, raises IllegalStateError and does not change the file.
        """
        text = format_checkpoint(offsets)
        if text is None:
            self.delete()
            return
        with as_state_errors(f"the checkpoint file {self.path} cannot be written"):
            self._files.write_whole(self.path, text.encode(), written_as=f"{CHECKPOINT_FILE_NAME}.tmp", synced=True)

    def delete(self) -> None:
        """Delete the file. After `delete` has returned, the file stays deleted even if the machine fails."""
        with (
            as_state_errors(f"the checkpoint file {self.path} cannot be deleted"),
            suppress(FileNotFoundError, NotADirectoryError),
        ):
            self._files.delete(self.path)
            self._files.sync_directory(self.path.parent)

    def _set_aside(self) -> Path:
        number = 1
        while self._files.exists(aside := self.path.with_name(f"{CHECKPOINT_FILE_NAME}.corrupt-{number}")):
            number += 1
        with as_state_errors(f"the broken checkpoint file {self.path} cannot be renamed"):
            self._files.rename(self.path, aside)
            self._files.sync_directory(self.path.parent)
        return aside


def next_offsets(checkpointed: Mapping[TopicPartition, int]) -> Offsets:
    """Returns the offsets that a thread reports to the leader. Each returned offset is one higher than the given
    offset, or 0 for OFFSET_UNKNOWN.
    """
    return {p: 0 if offset == OFFSET_UNKNOWN else offset + 1 for p, offset in checkpointed.items()}


def format_checkpoint(offsets: Mapping[TopicPartition, int]) -> str | None:
    """Returns the text of the file, in the order of `offsets`. Returns None if `offsets` is empty, because a task
    without offsets has no file.

    Raises IllegalStateError if an offset is negative and not OFFSET_UNKNOWN.
    """
    if not offsets:
        return None
    lines = [str(_VERSION), str(len(offsets))]
    for (topic, partition), offset in offsets.items():
        if not _is_valid(offset):
            raise IllegalStateError("Attempted to write a negative offset to the checkpoint file")
        lines.append(f"{topic} {partition} {offset}")
    return "\n".join(lines) + "\n"


def parse_checkpoint(data: bytes) -> Offsets:
    """Parses a checkpoint file. Leaves out entries with negative offsets, except OFFSET_UNKNOWN.

    Raises DecodeError for a text in an unknown format. The field `reason` of the error is the message that Kafka would
    use. Differs from Kafka: this parser reads only ASCII digits, but Java reads the digits of any script. Kafka itself
    writes only ASCII digits.
    """
    lines = _Lines(data)
    version = lines.number(32)
    if version != _VERSION:
        raise lines.error(f"Unknown offset checkpoint version: {version}")
    expected = lines.number(32)
    offsets: dict[TopicPartition, int] = {}
    while (line := lines.next()) is not None:
        topic, partition, offset = lines.entry(line)
        if _is_valid(offset):
            offsets[TopicPartition(topic, partition)] = offset
        else:
            expected -= 1  # As in Kafka, the expected number counts only entries with a valid offset.
    if len(offsets) != expected:
        raise lines.error(f"Expected {expected} entries but found only {len(offsets)}")
    return offsets


def _is_valid(offset: int) -> bool:
    return offset >= 0 or offset == OFFSET_UNKNOWN


class _Lines:
    """Splits the file into lines as `BufferedReader.readLine` does, and knows the position at which the current line
    starts.
    """

    def __init__(self, data: bytes) -> None:
        try:
            self._text = data.decode()
        except UnicodeDecodeError as error:
            raise DecodeError("OffsetCheckpoint", "not UTF-8", error.start) from error
        self._lines = _LINE.finditer(self._text)
        self._at = 0

    def error(self, reason: str) -> DecodeError:
        return DecodeError("OffsetCheckpoint", reason, len(self._text[: self._at].encode()))

    def next(self) -> str | None:
        match = next(self._lines)
        self._at = match.start()
        return None if self._at == len(self._text) else match[1]

    def number(self, bits: int) -> int:
        line = self.next()
        if line is None:
            raise self.error("File ended prematurely.")
        return self._parse(line, bits)

    def entry(self, line: str) -> tuple[str, int, int]:
        pieces = _WHITESPACE.split(line)
        while len(pieces) > 1 and not pieces[-1]:  # Java's `split` drops empty strings at the end
            pieces.pop()
        if len(pieces) != 3:
            raise self.error(f"Malformed line in offset checkpoint file: '{line}'.")
        return pieces[0], self._parse(pieces[1], 32), self._parse(pieces[2], 64)

    def _parse(self, text: str, bits: int) -> int:
        limit = 1 << (bits - 1)
        # numbers of 32 and 64 bits have at most 19 digits, and int() is slow for very long texts
        if _NUMBER.match(text) is None or len(text.lstrip("+-").lstrip("0")) > 19:
            raise self.error(f'For input string: "{text}"')
        value = int(text)
        if not -limit <= value < limit:
            raise self.error(f'For input string: "{text}"')
        return value
