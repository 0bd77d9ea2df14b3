"""A group as people want to see it: state, members, who has which task in which role, what comes next, how it went."""

from __future__ import annotations

from dataclasses import dataclass

from assignor.types import ProcessId, Role, TaskId
from coordinator_api.group.image import ClassicGroupMember, GroupImage
from coordinator_api.group.liveness import Liveness, Session
from coordinator_api.group.states import GroupState, RebalanceOutcome, RebalanceReason
from coordinator_api.group.subscriptions import assigned_tasks, process_of, running_tasks


@dataclass(frozen=True, slots=True)
class TaskDescription:
    """`offset_sum`: as the member's last heartbeat reported it; None when it did not (or not since a restart)."""

    task_id: TaskId
    role: Role
    offset_sum: int | None


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """Times in milliseconds. `has_joined`: sent its subscription for the round that is being prepared or computed.

    `tasks`: what its last assignment gives it, of `assigned_generation`; `running`: what its last subscription said it
    runs as active. `fetched`: whether it is known to have the assignment of the current generation. `last_heard_ms`,
    `session_expires_at_ms`: None in a group that is led elsewhere, where nothing is heard of it between rounds.
    """

    member_id: str
    client_id: str | None
    group_instance_id: str | None
    incarnation: int | None
    process_id: ProcessId | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    last_heard_ms: int | None
    session_expires_at_ms: int | None
    has_joined: bool
    fetched: bool
    joined_generation: int
    assigned_generation: int
    tasks: tuple[TaskDescription, ...]
    running: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class RebalanceDescription:
    """How the last completed round ended. `reason`: in words. `error`: what went wrong, None when nothing did.

    `missing_topics`: source topics that were not there.
    """

    generation_id: int
    reason: str | None
    outcome: RebalanceOutcome
    error: str | None
    error_code: int
    definition_revision: int
    missing_topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """`reason`: why the current round was prepared, in words. `next_probing_rebalance_at_ms`: None when none is due.

    `settled`: nothing can change any more although the last round asked for a follow-up. `error`: of the last round,
    when the group still stands as that round left it. `led_by`, `reported_at_ms`: who leads the group, and when its
    last round was reported; None when it is led here.
    """

    group_id: str
    state: GroupState
    generation_id: int
    definition_revision: int
    draining: bool
    reason: str | None
    next_probing_rebalance_at_ms: int | None
    settled: bool
    error: str | None
    last_rebalance: RebalanceDescription | None
    members: tuple[MemberDescription, ...]
    led_by: str | None = None
    reported_at_ms: int | None = None


def describe(group_id: str, image: GroupImage, liveness: Liveness) -> GroupDescription:
    last = image.last_rebalance
    standing = last if image.state is GroupState.STABLE else None
    return GroupDescription(
        group_id=group_id,
        state=image.state,
        generation_id=image.generation_id,
        definition_revision=image.revision,
        draining=image.draining,
        reason=_in_words(image.reason, image.detail),
        next_probing_rebalance_at_ms=standing.probing_rebalance_at_ms if standing else None,
        settled=standing is not None and standing.outcome is RebalanceOutcome.SETTLED,
        error=standing.error if standing else None,
        last_rebalance=None
        if last is None
        else RebalanceDescription(
            last.generation_id,
            _in_words(last.reason, last.detail),
            last.outcome,
            last.error,
            last.error_code,
            last.definition_revision,
            last.missing_topics,
        ),
        members=tuple(
            _describe_member(image, member, liveness.sessions.get(member_id))
            for member_id, member in image.members.items()
        ),
        led_by=image.led_by,
        reported_at_ms=image.reported_at_ms,
    )


def _in_words(reason: RebalanceReason | None, detail: str | None) -> str | None:
    return detail or (None if reason is None else str(reason))


def _describe_member(image: GroupImage, member: ClassicGroupMember, session: Session | None) -> MemberDescription:
    """`session`: None in a group that is led elsewhere."""
    preparing = image.state is GroupState.PREPARING_REBALANCE
    return MemberDescription(
        member_id=member.member_id,
        client_id=member.client_id,
        group_instance_id=member.group_instance_id,
        incarnation=member.incarnation,
        process_id=process_of(member.subscription),
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        last_heard_ms=session.last_heard_ms if session else None,
        session_expires_at_ms=session.expires_at_ms if session else None,
        has_joined=image.has_joined(member) if preparing else image.takes_part(member),
        fetched=session is None or session.acknowledged_generation == image.generation_id,
        joined_generation=member.joined_generation,
        assigned_generation=member.assigned_generation,
        tasks=_tasks(member, session),
        running=running_tasks(member.subscription),
    )


def _tasks(member: ClassicGroupMember, session: Session | None) -> tuple[TaskDescription, ...]:
    """Active tasks first, then standbys, each in order."""
    if member.assignment is None:
        return ()
    assigned = assigned_tasks(member.assignment)
    sums = session.task_offset_sums if session else {}
    active = [TaskDescription(task, Role.ACTIVE, sums.get(task)) for task in sorted(assigned.active)]
    standby = [
        TaskDescription(task, Role.WARM_UP if task in member.warm_ups else Role.STANDBY, sums.get(task))
        for task in sorted(assigned.standby)
    ]
    return (*active, *standby)
