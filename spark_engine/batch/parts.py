"""The files of worker processes in the parts directory. The driver reads their names alone to see the progress:

- `00000012-256-0.parquet`: the rows of chunk 12: 256 of them, with 0 rejects. It appears once it is complete.
- `00000012.rejects.jsonl`: the chunk's rejects, if any; written before the part.
- `00000012.failed`: the error that its work raised (JSON). `00000012.died-1`: a process that ran the chunk has died,
  and the chunk was started again.
- `started`: the first chunk of this run has begun.
- `.00000012-….tmp`: incomplete, left by a killed process.

Files are not synced: a part damaged by a power cut is found when it is read (`read_rows`), and written again.
"""

from __future__ import annotations

import json
import os
import re
import traceback
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from assignor.errors import AssignorFault
from spark_engine.batch.outcome import PartDamaged
from spark_engine.batch.work import Chunk, ChunkOutput, Reject

STARTED = "started"
_PART = re.compile(r"(\d{8,})-(\d+)-(\d+)\.parquet")
_FAILED = re.compile(r"(\d{8,})\.failed")
_DIED = re.compile(r"(\d{8,})\.died-(\d+)")


@dataclass(frozen=True, slots=True)
class Part:
    """The result of one chunk."""

    number: int
    rows: int
    rejects: int

    @property
    def name(self) -> str:
        return f"{self.number:08d}-{self.rows}-{self.rejects}.parquet"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a chunk has no part. `reason`: one line. `trace`: the stack, "" when its process died."""

    number: int
    reason: str
    trace: str


class PartsSeen:
    """The content of a parts directory, read repeatedly. Only new names cost more than a set look-up."""

    def __init__(self, directory: Path, chunks: Sequence[Chunk]) -> None:
        self.directory = directory
        self.parts: dict[int, Part] = {}
        self.failed: set[int] = set()
        self.started = False
        self.rows = 0
        self.rejects = 0
        self.planned = sum(chunk.lines for chunk in chunks)
        """The most rows and rejects there can be. A chunk that gave fewer lowers the number."""
        self._lines = {chunk.number: chunk.lines for chunk in chunks}
        self._known: set[str] = set()

    def refresh(self) -> None:
        for name in sorted(set(os.listdir(self.directory)) - self._known):
            self._known.add(name)
            self.started = self.started or name == STARTED
            if failed := _FAILED.fullmatch(name):
                self.failed.add(int(failed[1]))
            elif found := _PART.fullmatch(name):
                self._add(Part(int(found[1]), int(found[2]), int(found[3])))

    def missing(self) -> list[int]:
        return sorted(self._lines.keys() - self.parts.keys())

    def _add(self, part: Part) -> None:
        if part.number in self.parts or part.number not in self._lines:
            return
        self.parts[part.number] = part
        self.rows += part.rows
        self.rejects += part.rejects
        self.planned -= self._lines[part.number] - part.rows - part.rejects


def settled(directory: Path) -> tuple[set[int], set[int]]:
    """The chunks that have a part, and those that failed in this run."""
    names = os.listdir(directory)
    return (
        {int(part[1]) for part in map(_PART.fullmatch, names) if part},
        {int(failed[1]) for failed in map(_FAILED.fullmatch, names) if failed},
    )


def forget_last_run(directory: Path) -> None:
    """Keep the parts and remove the traces of the last run, so that failed chunks are retried."""
    for name in os.listdir(directory):
        if _FAILED.fullmatch(name) or _DIED.fullmatch(name) or name == STARTED or name.endswith(".tmp"):
            (directory / name).unlink(missing_ok=True)


def mark_started(directory: Path) -> None:
    (directory / STARTED).touch()


def deaths(directory: Path, number: int) -> int:
    """Count one more death of the process that ran this chunk; return the number of deaths."""
    before = len([found for found in map(_DIED.fullmatch, os.listdir(directory)) if found and int(found[1]) == number])
    (directory / f"{number:08d}.died-{before + 1}").touch()
    return before + 1


def write_part(directory: Path, number: int, output: ChunkOutput) -> Part:
    """Write a chunk's part, which appears once it is complete. Raises OSError."""
    rows: int = output.rows.num_rows
    part = Part(number, rows, len(output.rejects))
    if output.rejects:
        lines = "".join(_reject_line(reject) for reject in output.rejects)
        _write(directory, number, _rejects_name(number), lines.encode())
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches([output.rows]), buffer, compression="zstd")
    _write(directory, number, part.name, buffer.getvalue())
    return part


def write_failure(directory: Path, number: int, reason: str, fault: BaseException | None = None) -> None:
    """`fault`: the exception of the work. The message of an AssignorFault has the advice, so its stack is left out."""
    is_plain = fault is None or isinstance(fault, AssignorFault)
    trace = "" if is_plain else "".join(traceback.format_exception(fault))
    document = json.dumps({"reason": reason, "trace": trace})
    _write(directory, number, f"{number:08d}.failed", document.encode())


def read_failure(directory: Path, number: int) -> Failure:
    document = json.loads((directory / f"{number:08d}.failed").read_text())
    return Failure(number, document["reason"], document["trace"])


def read_rows(directory: Path, part: Part) -> pa.Table:
    """Raises PartDamaged after removing a part that cannot be read."""
    try:
        with pq.ParquetFile(directory / part.name) as source:
            return source.read(use_threads=False)
    except (OSError, pa.ArrowException) as fault:
        (directory / part.name).unlink(missing_ok=True)
        raise PartDamaged(
            f"{directory / part.name} could not be read ({fault}) and was removed; run the same command again"
        ) from fault


def read_rejects(directory: Path, part: Part) -> Iterator[bytes]:
    """The lines of its rejects. Raises PartDamaged after removing a part whose rejects are incomplete."""
    if not part.rejects:
        return
    file = directory / _rejects_name(part.number)
    lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
    if len(lines) != part.rejects:
        (directory / part.name).unlink(missing_ok=True)
        raise PartDamaged(f"{file} is incomplete, so its part was removed; run the same command again")
    yield from lines


def _rejects_name(number: int) -> str:
    return f"{number:08d}.rejects.jsonl"


def _reject_line(reject: Reject) -> str:
    document = {"where": reject.where, "kind": reject.kind, "reason": reject.reason, "line": reject.line}
    line = json.dumps(document, ensure_ascii=False)
    try:
        line.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which JSON allows and UTF-8 does not
        line = json.dumps(document)
    return f"{line}\n"


def _write(directory: Path, number: int, name: str, content: bytes | pa.Buffer) -> None:
    temporary = directory / f".{number:08d}-{uuid.uuid4().hex}.tmp"
    try:
        with temporary.open("wb") as target:
            target.write(content)
        os.replace(temporary, directory / name)
    finally:
        temporary.unlink(missing_ok=True)
