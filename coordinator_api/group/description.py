"""The description of a group for operators. The description has the state, the members, the tasks with their roles, and
the next rebalance.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from assignor.protocol.subscription_info import SubscriptionInfo
from assignor.types import ProcessId, Role, TaskId
from coordinator_api.group.holding import DescribedHeld, describe_held
from coordinator_api.group.image import ClassicGroupMember, GroupImage
from coordinator_api.group.liveness import Session
from coordinator_api.group.reported_flow import Flow, ReportedFlow, flow_of
from coordinator_api.group.reported_offsets import ReportedOffsets
from coordinator_api.group.states import GroupState
from coordinator_api.group.subscriptions import assigned_tasks, subscribed_rack, subscription_info


@dataclass(frozen=True, slots=True)
class DescribedTask:
    """A task of a member. `offset_sum`: the task's sum of offsets in the member's last heartbeat; None if no heartbeat
    has reported it to this coordinator. `per_s`: the number of offsets by which the sum grew per second, in the last
    seconds; 0 if it did not grow or if this is not known. `flow`: the flow of the task's input; None if the member has
    not reported it.
    """

    task_id: TaskId
    role: Role
    offset_sum: int | None
    per_s: float = 0.0
    flow: Flow | None = None


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """The description of a member for operators. `has_joined`: True if the member has sent its subscription for the
    rebalance that is being prepared. While no rebalance is being prepared, `has_joined` is True if the member has sent
    its subscription for the current generation.

    `subscribed`: the user data of the member's last subscription; None if the user data cannot be read. `process_id`:
    the member's process id from the last subscription; None if the user data cannot be read or have an unknown future
    version. `tasks`: the tasks of the member's last assignment. `running`: the active tasks that the member owned when
    it sent its last subscription. `fetched`: True if the member is known to have the assignment of the current
    generation. `fetched` is always True in a group whose leader is outside this service. `last_heard_ms`: the arrival
    time of the member's last request. `session_expires_at_ms`: the end of the member's session. `last_heard_ms` and
    `session_expires_at_ms` are None if the leader is outside this service, because this service then has no sessions.
    `rack`: the rack of the member's last subscription; None if the subscription has no rack.
    """

    member: ClassicGroupMember
    subscribed: SubscriptionInfo | None
    process_id: ProcessId | None
    last_heard_ms: int | None
    session_expires_at_ms: int | None
    has_joined: bool
    fetched: bool
    tasks: tuple[DescribedTask, ...]
    running: tuple[TaskId, ...]
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """The description of a group for operators. `image`: the described state of the group. `held`: the rebalance that
    waits for approval; None if no rebalance waits.
    """

    group_id: str
    image: GroupImage
    members: tuple[DescribedMember, ...]
    held: DescribedHeld | None = None


def describe(
    group_id: str, image: GroupImage, sessions: Mapping[str, Session], committed_sessions: Mapping[str, Session]
) -> GroupDescription:
    """Describes the group. `sessions`: the sessions of the present members. `committed_sessions`: the sessions of all
    members of `image`. While the removal of a member is being committed, `sessions` does not contain the member.
    """
    return GroupDescription(
        group_id=group_id,
        image=image,
        members=tuple(
            _describe_member(image, member, sessions.get(member_id) or committed_sessions.get(member_id))
            for member_id, member in image.members.items()
        ),
        held=describe_held(image),
    )


def _describe_member(image: GroupImage, member: ClassicGroupMember, session: Session | None) -> DescribedMember:
    """`session`: the member's session; None if the leader of the group is outside this service."""
    preparing = image.state is GroupState.PREPARING_REBALANCE
    subscribed = subscription_info(member.last_join.subscription)
    known = None if subscribed is None or subscribed.is_future else subscribed
    return DescribedMember(
        member=member,
        subscribed=subscribed,
        process_id=known.process_id if known else None,
        last_heard_ms=session.last_heard_ms if session else None,
        session_expires_at_ms=session.expires_at_ms if session else None,
        has_joined=image.has_joined(member) if preparing else image.takes_part(member),
        fetched=session is None or session.acknowledged_generation == image.generation_id,
        tasks=_tasks(member, session),
        running=tuple(sorted(known.prev_tasks)) if known else (),
        rack=subscribed_rack(member.last_join.subscription),
    )


def _tasks(member: ClassicGroupMember, session: Session | None) -> tuple[DescribedTask, ...]:
    """Returns the member's active tasks, sorted, then its standby tasks, sorted."""
    last = member.last_assignment
    if last.assignment is None:
        return ()
    assigned = assigned_tasks(last.assignment)
    reported = session.offsets if session else ReportedOffsets()
    flow = session.flow if session else ReportedFlow()

    def described(task: TaskId, role: Role) -> DescribedTask:
        return DescribedTask(task, role, reported.sums.get(task), reported.per_s.get(task, 0.0), flow_of(flow, task))

    active = [described(task, Role.ACTIVE) for task in sorted(assigned.active)]
    standby = [
        described(task, Role.WARM_UP if task in last.warm_ups else Role.STANDBY) for task in sorted(assigned.standby)
    ]
    return (*active, *standby)
