"""Finds the episodes of recorded groups: the rebalances from which forecasts start. The first rebalance of a group is
an episode. A rebalance is also an episode if its processes or numbers of threads differ from the previous rebalance. A
change of processes or threads means that an instance joined, left, was killed or was restarted. All other recorded
rebalances are follow-ups or probing rebalances. The forecast computes these rebalances without recordings. Each
placement problem is an episode. The `meta.chain` of a placement problem is the name of its group. A placement problem
without `meta.chain` forms a separate group with one episode.

The driver writes the lines of all chunks to one spool file, and the workers read this file. So a chunk only contains a
position in the spool file. The spool file is in the output directory, which every executor can read. In the spool file,
each line is compressed by zlib. The length of each compressed line is stored before the line, in four bytes
(big-endian).
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from assignor.errors import AssignorFault, InputError, KafkaError
from assignor.pipeline import gather_members
from assignor.recording import RecordedPlacement, RecordedRebalance
from rebalance_analysis.reading.lines import Line
from rebalance_analysis.reading.recorded_group import chain_of
from rebalance_analysis.recordings.chunk import rejected
from rebalance_analysis.rerun import parse_recorded
from spark_engine.batch.work import LINES_A_CHUNK, Reject


@dataclass(frozen=True, slots=True)
class GroupEpisodes:
    """The episodes of one group. `rebalances`: the number of recorded rebalances of the group. `lines`: the position of
    the recorded lines of the episodes. These lines are in order of time.
    """

    group_id: str
    rebalances: int
    lines: SpooledLines

    @property
    def episodes(self) -> int:
        return self.lines.count


@dataclass(frozen=True, slots=True)
class Episodes:
    """The episodes of all groups. `groups`: the episodes of each group, sorted by group id. `rejects`: the positions of
    the lines that cannot be used, in blocks of LINES_A_CHUNK lines. `read_rejects` reads one block of these lines.

    `digest`: the SHA-256 of the spool file, which identifies its lines.
    """

    groups: tuple[GroupEpisodes, ...]
    rejects: tuple[SpooledLines, ...]
    digest: str

    @property
    def total(self) -> int:
        return sum(group.episodes for group in self.groups)


class _Candidate(NamedTuple):
    """A rebalance that may be an episode. `shape`: a digest of the processes and their numbers of threads; None for a
    placement problem, which is always an episode.
    """

    generation: int
    number: int
    shape: bytes | None
    record: SpooledRecord


def gather_episodes(lines: Iterable[Line], spool: Path) -> Episodes:
    """Reads the lines of recordings, and writes the episodes and the rejects to a spool file. `spool`: the path of the
    spool file. While the lines are read, the rebalances are stored in a temporary file in the same directory. So each
    rebalance needs only some 200 bytes of memory.
    """
    rebalances: dict[str, list[_Candidate]] = {}
    rejects: list[SpooledRecord] = []
    with tempfile.TemporaryFile(dir=spool.parent) as waiting:
        writer = SpoolWriter(waiting)
        for number, line in enumerate(lines):
            try:
                group_id, generation, shape = _identity(line)
            except AssignorFault as error:
                rejects.append(writer.add(json.dumps(asdict(_reject(line, error))).encode()))
                continue
            assert line.content is not None
            rebalances.setdefault(group_id, []).append(_Candidate(generation, number, shape, writer.add(line.content)))
        return _spooled(rebalances, rejects, waiting, spool)


def read_rejects(lines: SpooledLines) -> tuple[Reject, ...]:
    return tuple(Reject(**json.loads(line)) for line in read_spooled(lines))


def _spooled(
    rebalances: Mapping[str, list[_Candidate]], rejects: Sequence[SpooledRecord], waiting: BinaryIO, spool: Path
) -> Episodes:
    with spool.open("wb") as stream:
        writer = SpoolWriter(stream)

        def copied(records: Sequence[SpooledRecord]) -> SpooledLines:
            lines = SpooledLines(str(spool.absolute()), writer.end, len(records))
            for record in records:
                writer.copy(waiting, record)
            return lines

        groups = []
        for group_id in sorted(rebalances):
            in_order = sorted(rebalances[group_id], key=lambda each: (each.generation, each.number))
            groups.append(GroupEpisodes(group_id, len(in_order), copied([each.record for each in _episodes(in_order)])))
        starts = range(0, len(rejects), LINES_A_CHUNK)
        rejected = tuple(copied(rejects[start : start + LINES_A_CHUNK]) for start in starts)
    return Episodes(tuple(groups), rejected, writer.digest())


def _episodes(rebalances: Iterable[_Candidate]) -> list[_Candidate]:
    episodes: list[_Candidate] = []
    before: bytes | None = None
    for each in rebalances:
        if each.shape is None or each.shape != before:
            episodes.append(each)
        before = each.shape
    return episodes


def _identity(line: Line) -> tuple[str, int, bytes | None]:
    """Returns the group, generation and shape of a line. Raises AssignorFault for a line that cannot be used."""
    document = line.usable_document()
    recorded = parse_recorded(document)
    if isinstance(recorded, RecordedPlacement):
        return chain_of(document) or recorded.id, 0, None
    return recorded.group_id, recorded.generation_id, _shape(recorded)


def _shape(recorded: RecordedRebalance) -> bytes:
    """Returns a digest of the processes and their numbers of threads. Raises DecodeError, KafkaError or InputError if
    no leader can place the rebalance.
    """
    snapshot = recorded.snapshot
    if not snapshot.members:
        raise InputError("at least one member is needed", "input.members")
    clients = gather_members(snapshot).clients
    threads = sorted(f"{process} {len(client.consumers)}" for process, client in clients.items())
    return hashlib.blake2b("\n".join(threads).encode(), digest_size=16).digest()


def _reject(line: Line, error: AssignorFault) -> Reject:
    reason = f"no placement: {error.with_hint()}" if isinstance(error, KafkaError) else None
    return rejected(line.where, line.content, error, reason)


_LENGTH_BYTES = 4
_LEVEL = 1


@dataclass(frozen=True, slots=True)
class SpooledLines:
    """Consecutive records of a spool file. `offset`: the byte at which the first record begins. `count`: the number of
    records.
    """

    path: str
    offset: int
    count: int


@dataclass(frozen=True, slots=True)
class SpooledRecord:
    """The position and the length of one record of a spool file, in bytes. The length in a SpooledRecord includes the
    four bytes before the line.
    """

    offset: int
    length: int


class SpoolWriter:
    """Appends records to a spool file. `stream`: an empty file that is open for writing."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._end = 0
        self._sha256 = hashlib.sha256()

    @property
    def end(self) -> int:
        return self._end

    def digest(self) -> str:
        """Returns the SHA-256 of all written bytes. The same lines in the same order give the same digest."""
        return self._sha256.hexdigest()

    def add(self, line: bytes) -> SpooledRecord:
        packed = zlib.compress(line, _LEVEL)
        return self._append(len(packed).to_bytes(_LENGTH_BYTES, "big") + packed)

    def copy(self, source: BinaryIO, record: SpooledRecord) -> SpooledRecord:
        """Appends a copy of a record of another spool file."""
        source.seek(record.offset)
        return self._append(source.read(record.length))

    def _append(self, content: bytes) -> SpooledRecord:
        self._stream.write(content)
        self._sha256.update(content)
        record = SpooledRecord(self._end, len(content))
        self._end += len(content)
        return record


def read_spooled(lines: SpooledLines) -> Iterator[bytes]:
    """Yields the lines of a block of a spool file. Raises InputError if the file cannot be read, for example because
    the executors do not share the output directory.
    """
    try:
        with open(lines.path, "rb") as stream:
            stream.seek(lines.offset)
            for _ in range(lines.count):
                length = int.from_bytes(stream.read(_LENGTH_BYTES), "big")
                yield zlib.decompress(stream.read(length))
    except (OSError, zlib.error) as error:
        reason = f"cannot be read where the work is done ({error}); --output has to be shared with executors"
        raise InputError(reason, lines.path) from None
