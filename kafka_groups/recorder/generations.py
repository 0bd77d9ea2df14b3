"""Decides whether a record of a group shows a new generation of a Kafka Streams application. No I/O.

Rules:

- A record shows a rebalance if each of its members has an assignment, and if its generation or its assignments are new.
  If a static member returns, the brokers write the record of the present generation again, with a new member id. So a
  record with the generation and the assignments of the last rebalance does not show a new rebalance.
- A new group has generation 0 and no members. A group that all members have left has a generation without members. A
  generation without members does not count as a rebalance. After the tombstone of a group, its next generation has
  number 1.
- The brokers write no record of a rebalance if the leader has failed, or if the next rebalance begins before the leader
  sends the assignments. So the records of some generations are missing. If the recorder reads new records, a missing
  generation never got an assignment. If the recorder reads old records, compaction may have removed the record of a
  missing generation.

Source: `GroupMetadataManager.classicGroupSyncToClassicGroup`, `updateStaticMemberThenRebalanceOrCompleteJoin`.
"""

import hashlib
from dataclasses import dataclass, replace

from assignor.errors import InputError
from assignor.protocol.group_metadata import GroupKind, GroupMetadataValue, OtherGroupKey, decode_group_value
from kafka_client.offsets_topic import GroupRecord
from kafka_groups.leader.led_rebalance import PROTOCOL, PROTOCOL_TYPE

_OTHER_KINDS = {
    GroupKind.STREAMS: "speaks the streams rebalance protocol (KIP-1071), where the brokers place the tasks and no "
    "member leads, so there is nothing to record; set group.protocol=classic",
    GroupKind.CONSUMER: "speaks the consumer rebalance protocol (KIP-848), which Kafka Streams does not use",
    GroupKind.SHARE: "is a share group (KIP-932), not a Kafka Streams application",
}


class NotStreams(InputError):
    """The group exists, but is not a Kafka Streams application on the classic protocol."""


@dataclass(frozen=True, slots=True)
class CompletedGeneration:
    """A generation that got its assignments. `leader`: the member id of its leader; None if the generation has no
    members, or if an earlier run read its record.
    """

    generation: int
    leader: str | None = None


@dataclass(frozen=True, slots=True)
class ObservedRebalance:
    """A new generation, with the content of its record. `written_ms`: the time at which the broker wrote the record.

    `before`: the last earlier generation of the group that got its assignments; None if it is not known. The
    generations between `before` and this generation never got an assignment.
    """

    group: str
    value: GroupMetadataValue
    partition: int
    offset: int
    written_ms: int
    before: CompletedGeneration | None = None

    @property
    def id(self) -> str:
        """The id of the rebalance. The id consists of the group, the generation, and the partition and offset of the
        record. So the id is unique, and every run makes the same id.
        """
        return f"{self.group}.{self.value.generation}@{self.partition}:{self.offset}"

    @property
    def interrupted(self) -> range:
        """The numbers of the generations between the last completed generation and this generation. These generations
        never got an assignment.
        """
        return range(0) if self.before is None else range(self.before.generation + 1, self.value.generation)

    @property
    def leader_is_gone(self) -> bool:
        """True if the leader of the last generation is no longer a member, or has a new member id."""
        leader = None if self.before is None else self.before.leader
        return leader is not None and all(member.member_id != leader for member in self.value.members)


@dataclass(frozen=True, slots=True)
class LastSeen:
    """The state of a group after the last record that was read. `generation`: the number of the generation; None before
    the first generation, and after the deletion of the group. `digest`: a hash of the assignments.
    """

    offset: int = -1
    generation: int | None = None
    members: int = 0
    digest: str = ""


class GroupGenerations:
    """Finds the rebalances among the records of one group. Call `take` with the records in the order of their offsets.
    `seen`: the state of the group at the end of an earlier run; None without an earlier run.
    """

    def __init__(self, group: str, seen: LastSeen | None = None) -> None:
        self.group = group
        self.seen = seen or LastSeen()
        self._leader: str | None = None

    def take(self, record: GroupRecord) -> ObservedRebalance | None:
        """Handles the next record. Returns the rebalance that the record shows; None if it shows no new rebalance.
        Raises NotStreams. Raises DecodeError if the record's value cannot be read.
        """
        if record.offset <= self.seen.offset:
            return None
        before = self.seen
        self.seen = replace(before, offset=record.offset)
        if isinstance(record.key, OtherGroupKey):
            if record.value is not None:
                raise NotStreams(_OTHER_KINDS[record.key.kind], f"group {self.group}")
            return None
        if record.value is None:
            self.seen = LastSeen(record.offset)
            return None
        value = decode_group_value(record.value)
        leader, self._leader = self._leader, value.leader
        if not value.members:
            self.seen = LastSeen(record.offset, value.generation or None, 0, before.digest)
            return None
        _check_is_streams(self.group, value)
        if not all(member.assignment for member in value.members):
            return None
        digest = _digest(value)
        self.seen = LastSeen(record.offset, value.generation, len(value.members), digest)
        if before.generation == value.generation and before.digest in (digest, ""):
            return None
        completed = None if before.generation is None else CompletedGeneration(before.generation, leader)
        return ObservedRebalance(self.group, value, record.partition, record.offset, record.timestamp_ms, completed)

    def wrote(self, generation: int, offset: int) -> None:
        """Marks a rebalance as already written to the output. The digest is empty, because the assignments are not
        known here.
        """
        if offset > self.seen.offset:
            self.seen = LastSeen(offset, generation, self.seen.members, "")


def _check_is_streams(group: str, value: GroupMetadataValue) -> None:
    if value.protocol_type != PROTOCOL_TYPE or value.protocol != PROTOCOL:
        raise NotStreams(
            f"is of protocol type {value.protocol_type!r} with assignor {value.protocol!r}; Kafka Streams has "
            f"{PROTOCOL_TYPE!r} and {PROTOCOL!r}, and its group id is the application.id",
            f"group {group}",
        )


def _digest(value: GroupMetadataValue) -> str:
    """Returns a hash of the assignments. The hash does not depend on member ids, because a static member gets a new
    member id when it returns.
    """
    sums = sorted(hashlib.sha256(member.assignment).digest() for member in value.members)
    return hashlib.sha256(b"".join(sums)).hexdigest()[:16]
