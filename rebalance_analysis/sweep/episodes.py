"""Where forecasts start: the rebalances at which something happened to a group, out of all its recorded ones.

An episode is the first rebalance of a group, and each one whose processes, or threads per process, differ from those of
the rebalance before: an instance came, left, was killed or was restarted. The rebalances in between only follow up or
probe, and the forecast makes those itself. A placement problem is an episode of its chain, or of a group of its own.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from assignor.clients.client_metadata import group_metadata
from assignor.errors import AssignorFault, InputError, KafkaError, NotBuiltYet
from assignor.recording import RecordedPlacement, RecordedRebalance
from rebalance_analysis.reading.lines import Line
from rebalance_analysis.rerun import parse_recorded
from rebalance_analysis.sweep.spooled_lines import SpooledLines, SpooledRecord, SpoolWriter, read_spooled
from spark_engine.batch.work import LINES_A_CHUNK, REFUSED, UNUSABLE, Reject


@dataclass(frozen=True, slots=True)
class GroupEpisodes:
    """`rebalances`: how many were read of the group. `lines`: its episodes, in the order they happened."""

    group_id: str
    rebalances: int
    lines: SpooledLines

    @property
    def episodes(self) -> int:
        return self.lines.count


@dataclass(frozen=True, slots=True)
class Episodes:
    """`groups`: sorted by id. `rejects`: unusable lines in blocks of LINES_A_CHUNK, which `read_rejects` reads back.

    `digest`: identifies the lines.
    """

    groups: tuple[GroupEpisodes, ...]
    rejects: tuple[SpooledLines, ...]
    digest: str

    @property
    def total(self) -> int:
        return sum(group.episodes for group in self.groups)


class _Candidate(NamedTuple):
    """A rebalance that may be an episode. `shape`: equal for equal processes and threads; None equals no other."""

    generation: int
    number: int
    shape: bytes | None
    record: SpooledRecord


def gather_episodes(lines: Iterable[Line], spool: Path) -> Episodes:
    """Read all `lines`, and write the episodes and the rejects to the file `spool`.

    Rebalances wait in a temporary file beside it, so this needs some 200 bytes of memory for each.
    """
    rebalances: dict[str, list[_Candidate]] = {}
    rejects: list[SpooledRecord] = []
    with tempfile.TemporaryFile(dir=spool.parent) as waiting:
        writer = SpoolWriter(waiting)
        for number, line in enumerate(lines):
            try:
                group_id, generation, shape = _what_it_is(line)
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


def _what_it_is(line: Line) -> tuple[str, int, bytes | None]:
    """The group, generation and shape of a line. Raises AssignorFault."""
    if line.document is None:
        raise InputError(line.problem or "is not usable")
    recorded = parse_recorded(line.document)
    if isinstance(recorded, RecordedPlacement):
        return _chain(line.document) or recorded.id, 0, None
    return recorded.group_id, recorded.generation_id, _shape(recorded)


def _chain(document: Mapping[str, object]) -> str | None:
    meta = document.get("meta")
    chain = meta.get("chain") if isinstance(meta, dict) else None
    return chain if isinstance(chain, str) else None


def _shape(recorded: RecordedRebalance) -> bytes:
    """Raises DecodeError, KafkaError, InputError for a rebalance that no leader can place."""
    snapshot = recorded.snapshot
    if not snapshot.members:
        raise InputError("at least one member is needed", "input.members")
    subscriptions = {member_id: member.subscription for member_id, member in snapshot.members.items()}
    clients = group_metadata(subscriptions, snapshot.future_process_id).clients
    threads = sorted(f"{process} {len(client.consumers)}" for process, client in clients.items())
    return hashlib.blake2b("\n".join(threads).encode(), digest_size=16).digest()


def _reject(line: Line, error: AssignorFault) -> Reject:
    kind = REFUSED if isinstance(error, NotBuiltYet) else UNUSABLE
    reason = f"no placement: {error.with_hint()}" if isinstance(error, KafkaError) else str(error)
    text = None if line.content is None else line.content.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
    return Reject(line.where, kind, reason, text)
