"""The owners of a group's partitions, as its claims topic has them: the order of its records decides.

A claim writes one record for each of its partitions, keyed by the partition:
- `mark`: random text, the same for all partitions of the claim;
- `epoch`: one higher than that of the claim before;
- `owner`: the transactional id that will commit with the claim, its producer id and its epoch; or null;
- `predecessors`: earlier owners that may still have a transaction open.

A second key, `<partition>/settled`, has the later state of a claim: its predecessors are fenced, or the owner has
released it. That state must not be written under the key of the claim: a late record of an older owner would replace a
newer claim there as soon as the topic is compacted.

Two claims that race may be written with the same epoch. The order of the records decides: every reader takes the later
one as one epoch higher.

An owner that has opened its transactional id again has a higher producer epoch. So every reader knows that it has
fenced its former self. An owner without a transactional id (at-least-once) cannot be fenced and need not be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from assignor.types import TopicPartition
from streams_runtime.logs.base import Claim
from streams_runtime.logs.log_errors import LogError
from streams_runtime.logs.producers import claimed_since

_SETTLED = "/settled"  # no topic has a slash in its name


class ClaimOwner(NamedTuple):
    transactional_id: str
    producer_id: int
    epoch: int


class Settled(NamedTuple):
    """The later state of the claim with this mark.

    `fenced`: its predecessors have no open transaction any more. `released`: its owner gave it up cleanly.
    """

    mark: str
    fenced: bool
    released: bool


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    mark: str
    epoch: int
    owner: ClaimOwner | None
    predecessors: tuple[ClaimOwner, ...] = ()


class ClaimTable:
    """The claims of one group, after all records of its claims topic up to some offset."""

    def __init__(self) -> None:
        self._claims: dict[TopicPartition, ClaimRecord] = {}
        self._settled: dict[TopicPartition, Settled] = {}
        self._newest: dict[str, ClaimOwner] = {}

    def apply(self, key: bytes | None, value: bytes | None) -> tuple[TopicPartition, ClaimRecord] | None:
        """Take in the next record. Returns it when it is a claim, with the epoch and the predecessors that it has now.

        Raises LogError for one that cannot be read.
        """
        if key is None or value is None:
            return None
        try:
            name, document = key.decode(), json.loads(value)
            if name.endswith(_SETTLED):
                self._settled[_partition(name.removesuffix(_SETTLED))] = Settled(
                    document["mark"], document["fenced"], document["released"]
                )
                return None
            partition = _partition(name)
            owner = None if document["owner"] is None else ClaimOwner(*document["owner"])
            predecessors = {ClaimOwner(*each) for each in document["predecessors"]}
            record = ClaimRecord(
                document["mark"],
                max(document["epoch"], self.epoch(partition) + 1),
                owner,
                # the writer did not know of a claim that raced it, and may have died before it could learn of it
                tuple(sorted(predecessors | self.not_fenced(partition, owner))),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise LogError(f"record {key!r} of a claims topic cannot be read: {error}") from error
        self._claims[partition] = record
        if owner is not None:
            self._newest[owner.transactional_id] = max(owner, self._newest.get(owner.transactional_id, owner))
        return partition, record

    def epoch(self, partition: TopicPartition) -> int:
        """Of the newest claim; 0 when there is none."""
        record = self._claims.get(partition)
        return 0 if record is None else record.epoch

    def mark(self, partition: TopicPartition) -> str | None:
        record = self._claims.get(partition)
        return None if record is None else record.mark

    def not_fenced(self, partition: TopicPartition, owner: ClaimOwner | None) -> set[ClaimOwner]:
        """Owners that may still have a transaction open for this partition, seen by `owner`."""
        record = self._claims.get(partition)
        if record is None:
            return set()
        settled = self._settled.get(partition)
        if settled is None or settled.mark != record.mark:
            settled = Settled(record.mark, fenced=False, released=False)
        open_owners = set() if settled.fenced else set(record.predecessors)
        if record.owner is not None and not settled.released:
            open_owners.add(record.owner)
        return {each for each in open_owners if not self._is_past(each, owner)}

    def check(self, claim: Claim) -> None:
        """Raises CommitFenced when any partition of the claim has been claimed since."""
        for partition in claim.epochs:
            if self.mark(partition) != claim.mark:
                raise claimed_since(claim, partition, self.epoch(partition))

    def _is_past(self, candidate: ClaimOwner, asking: ClaimOwner | None) -> bool:
        if asking is not None and candidate.transactional_id == asking.transactional_id:
            return True  # the same thread: it has opened its id again, or the open transaction is its own
        newest = self._newest.get(candidate.transactional_id)
        return newest is not None and newest > candidate


def claim_records(
    partitions: Iterable[TopicPartition], mark: str, owner: ClaimOwner | None, table: ClaimTable
) -> list[tuple[bytes, bytes]]:
    """Keys and values of a new claim, by the claims in `table`."""
    records = []
    for partition in partitions:
        document = {
            "mark": mark,
            "epoch": table.epoch(partition) + 1,
            "owner": owner,
            "predecessors": sorted(table.not_fenced(partition, owner)),
        }
        records.append((str(partition).encode(), json.dumps(document).encode()))
    return records


def settled_records(partitions: Iterable[TopicPartition], settled: Settled) -> list[tuple[bytes, bytes]]:
    value = json.dumps(settled._asdict()).encode()
    return [(f"{partition}{_SETTLED}".encode(), value) for partition in partitions]


def _partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))
