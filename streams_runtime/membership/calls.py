"""What a member and a coordinator say to each other, as values: the calls of the HTTP contract without HTTP.

Source: JoinGroup, SyncGroup and Heartbeat of Kafka's classic group protocol; KIP-1082 for ids that the client chooses.
Times are in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assignor.types import TaskId
from streams_runtime.membership.coordinator_errors import CoordinatorError


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A first join (`member_id` None) or a rejoin.

    `subscription`: ConsumerProtocolSubscription. `join_id`: of a first join; sent again with the same id when its
    answer was lost, it makes no second member. `leave_on_disconnect`: the member's session ends soon after the
    connection of its process heartbeats has broken.
    """

    subscription: bytes
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str | None = None
    group_instance_id: str | None = None
    incarnation: int | None = None
    client_id: str | None = None
    join_id: str | None = None
    leave_on_disconnect: bool = False


@dataclass(frozen=True, slots=True)
class GroupDefinition:
    """Which definition a group has. `declared_by`: who declared it; `declared_at`: when, in words. None when the
    coordinator does not know.
    """

    revision: int
    declared_by: str | None = None
    declared_at: str | None = None

    def __str__(self) -> str:
        at = f" at {self.declared_at}" if self.declared_at else ""
        return f"revision {self.revision}, declared{at} by {self.declared_by or 'somebody unknown'}"


@dataclass(frozen=True, slots=True)
class JoinReply:
    """`generation_id`: the generation whose assignment the member has to wait for. `definition`: what it has to run;
    None from a coordinator of an earlier release. `paused`: as in `ProcessHeartbeatReply`.
    """

    member_id: str
    generation_id: int
    state: str
    definition: GroupDefinition | None = None
    paused: bool = False


@dataclass(frozen=True, slots=True)
class FetchedAssignment:
    """`assignment`: ConsumerProtocolAssignment.

    `followup`: another rebalance follows as soon as all members have fetched their assignments.
    """

    generation_id: int
    assignment: bytes
    followup: bool


@dataclass(frozen=True, slots=True)
class MemberHeartbeat:
    """What the heartbeat of a process says about one member.

    `generation_id`: of the assignment that it works by, 0 before the first. `task_offset_sums`: None when nothing has
    changed since the last report.
    """

    generation_id: int
    task_offset_sums: Mapping[TaskId, int] | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatNews:
    """Of one member. `rejoin`: a rebalance is being prepared and waits for it. `stop`: leave the group and end.
    `assignment_generation`: the generation of the assignment that the member can fetch now, 0 for none.
    """

    rejoin: bool = False
    stop: bool = False
    assignment_generation: int = 0


@dataclass(frozen=True, slots=True)
class ProcessHeartbeatReply:
    """`generation_id`: of the group. `members`: news, or a refusal, for each member that was named. `paused`: members
    are to process nothing, by an operator's wish; None when the group did not say. `news`: a digest of these three; a
    heartbeat that names the present digest is held until there is another.
    """

    state: str
    generation_id: int
    news: str
    members: Mapping[str, HeartbeatNews | CoordinatorError]
    paused: bool | None = None
