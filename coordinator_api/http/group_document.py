"""Builds the JSON description of a group for operators: state, members, tasks with their lags, and the next rebalance.

A task copy is an active task, a standby task or a warm-up of one member. The lag of a copy is the end offsets minus the
offsets of the member's last report. The member reports offsets by heartbeat or with its subscription. The group's
leader would compute the same lag now. The end offsets come from the definition, or from the cluster that the definition
names. If the leader of a group is outside this service, the lag comes from the last rebalance that this leader
reported. If a member is away, its lags are unknown. If the cluster does not answer, all lags are unknown.

The time that a copy still needs is its lag divided by its speed. The speed is the growth of its offset sum between the
last heartbeats. Records that are written to the changelog meanwhile take more time, which is not included.

A lever is an operator command that stays in force, such as a pause. The field of a lever is null or empty while the
lever is off. If the lever is on, the field has the caller that set the lever, the time and the reason. The field of a
drain also has a flag that shows whether the instance can be stopped. If the instance cannot be stopped yet, a text
gives the reasons. The flag and the text are computed from the members and tasks of the same answer, so flag, text and
lists agree. An instance can be stopped if three conditions are true. The group is stable. The members of the group have
the assignment of this generation. No member of the instance has an active task. A drain does not wait until members
that are away have fetched their assignments, because these members send no requests.

The state of a group is one of Kafka's states, and does not show whether the group processes records. For example, a
group is Stable even if its topics are missing. So the answer also has the `health` of the group. The fields `condition`
and `advice` repeat parts of the health, for callers that do not read the health.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from assignor.names.short_names import names_of_ended, names_of_threads
from assignor.pipeline.snapshot import RebalanceSnapshot
from assignor.recording import dotted_configs
from assignor.topology.internal_topics import missing_source_topics
from assignor.types import Role, TaskId
from coordinator_api.group.description import GroupDescription
from coordinator_api.group.group_levers import Lever
from coordinator_api.group.health import GroupHealth, GroupObservation, ObservedCopy
from coordinator_api.group.health_rules import health_of
from coordinator_api.group.holding import DescribedHeld
from coordinator_api.group.image import GroupImage, LastRebalance
from coordinator_api.group.reported_flow import FlowHistory
from coordinator_api.group.states import GroupState, RebalanceOutcome
from coordinator_api.http.models.group_models import (
    FlowAnswer,
    FlowPointAnswer,
    GroupAnswer,
    GroupLine,
    GroupMemberAnswer,
    GroupsCluster,
    HealthAnswer,
    InstanceEndAnswer,
    LastRebalanceAnswer,
    NoticeAnswer,
    TaskCopyAnswer,
)
from coordinator_api.http.models.lever_models import (
    DrainedLever,
    HeldAnswer,
    LeverAnswer,
    LeversAnswer,
    MissingForDrain,
)
from coordinator_api.runtime.cluster_watch import Changelogs
from coordinator_api.runtime.clusters import Clusters, ProviderAddress
from coordinator_api.runtime.group_runtime import GroupRuntime
from coordinator_api.runtime.rebalance_runner import CLUSTER_POLL_TIMEOUT_MS
from rebalance_analysis.presentation.quantities import time_left_ms

_MORE_TO_COME = (RebalanceOutcome.FOLLOW_UP, RebalanceOutcome.PROBING)


def group_line(group: GroupRuntime) -> GroupLine:
    """Builds one line of the list of groups. The health of the line does not know the lags of task copies."""
    health = health_of(group.observation())
    return GroupLine(
        **_shown(group.group_id, group.image, health, group.group.flow_history),
        members=len(group.image.members),
        notices=len(group.notices()),
    )


def _shown(group_id: str, image: GroupImage, health: GroupHealth, flow: FlowHistory) -> dict[str, Any]:
    """Returns the fields that the list and the description of a group have in common."""
    end = image.present_end
    return {
        "group_id": group_id,
        "state": str(image.state),
        "generation_id": image.generation_id,
        "draining": image.draining,
        "probing_rebalance_at_ms": end.probing_rebalance_at_ms if end else None,
        "error": end.error if end else None,
        "led_by": image.led_by,
        "condition": None if health.condition is None else str(health.condition),
        "health": HealthAnswer.of(health),
        "flow": FlowPointAnswer.model_validate(flow.points[-1]) if flow.points else None,
        "declared_at_ms": image.origin.declared_at_ms,
    }


async def described_group(runtime: GroupRuntime, clusters: Clusters) -> GroupAnswer:
    """Describes the committed state of the group, the present state of its cluster, and the health of the group. A
    thread builds the answer, because this takes time in proportion to the group's members and tasks.
    """
    group = await runtime.describe()
    definition = await runtime.definition(group.image)
    snapshot, address, cluster = definition.snapshot, definition.provider, None
    if address is not None:
        snapshot = await _seen(runtime, clusters, address, snapshot)
        # Read this state on the event loop. While the thread runs, a poll of the cluster may change the state.
        cluster = GroupsCluster(
            **asdict(address),
            looked_at_ms=runtime.cluster.looked_at_ms,
            failing_since_ms=runtime.cluster.failing_since_ms,
            error=runtime.cluster.error,
        )
    seen = runtime.observation()
    missing = () if address is not None else missing_source_topics(snapshot.topology, snapshot.cluster)
    observed = replace(
        seen,
        image=group.image,
        cluster=replace(seen.cluster, address=None if address is None else str(address)),
        missing_topics=missing,
    )
    notices = [NoticeAnswer(process_id=notice.process, **asdict(notice.notice)) for notice in runtime.notices()]
    return await asyncio.to_thread(_group, group, snapshot, cluster, observed, runtime.stored_bytes, notices)


async def _seen(
    runtime: GroupRuntime, clusters: Clusters, address: ProviderAddress, definition: RebalanceSnapshot
) -> RebalanceSnapshot:
    """Returns the definition with the partitions and offsets that its cluster has now. If the cluster does not answer,
    returns the definition without end offsets.
    """
    if runtime.cluster.error is not None and runtime.is_polling_its_cluster():
        return definition
    try:
        view = await clusters.cluster(address).view(runtime.group_id, definition, CLUSTER_POLL_TIMEOUT_MS)
    except Exception as error:  # a cluster provider may raise any error
        runtime.cluster.failed(error)
        return definition
    runtime.cluster.answered()
    return definition.seen(view)


def _group(
    group: GroupDescription,
    definition: RebalanceSnapshot,
    cluster: GroupsCluster | None,
    seen: GroupObservation,
    stored_bytes: int,
    notices: list[NoticeAnswer],
) -> GroupAnswer:
    """Builds the answer. `definition`: the definition with the present state of the cluster; unknown offsets are left
    out.
    """
    members = [GroupMemberAnswer.of(member) for member in group.members]
    tasks, end = _tasks(group, definition), group.image.present_end
    copies = [ObservedCopy(copy.task, Role(copy.role), copy.lag, copy.left_ms) for copy in tasks]
    instances = names_of_threads((member.process_id, member.client_id) for member in members if member.process_id)
    ended = names_of_ended((end.process_id, end.client_id) for end in group.image.ends)
    seen = replace(seen, copies=copies, instances={**ended, **instances})
    health = health_of(replace(seen, acceptable_lag=definition.configs.acceptable_recovery_lag))
    return GroupAnswer(
        **_shown(group.group_id, group.image, health, seen.flow),
        revision=group.image.revision,
        declared_by=group.image.origin.declared_by,
        levers=LeversAnswer.model_validate(
            {
                "hold": group.image.levers.hold,
                "rejoin_grace": group.image.levers.rejoin_grace,
                "promotion": group.image.levers.promotion,
                "pause": group.image.levers.pause,
                "drained": drained_levers(group, members, tasks),
            }
        ),
        held_rebalance=held_answer(group.held),
        reason=None if group.image.cause is None else group.image.cause.as_text(),
        settled=end is not None and end.outcome is RebalanceOutcome.SETTLED,
        last_reported_ms=group.image.reported_at_ms,
        last_rebalance=_last_rebalance(group.image.last_rebalance),
        application_id=definition.application_id,
        assignor=definition.assignor,
        configs=dotted_configs(definition.configs),
        members=members,
        tasks=tasks,
        cluster=cluster,
        advice=health.advice,
        stored_bytes=stored_bytes,
        notices=notices,
        ends=_ends(group.image, members),
    )


def _ends(image: GroupImage, members: Sequence[GroupMemberAnswer]) -> list[InstanceEndAnswer]:
    """Returns the ended instances, newest first. A member that is away has left, so its instance is not present."""
    present = {member.process_id or member.member_id for member in _present(members)}
    return [InstanceEndAnswer.of(end, end.process_id in present) for end in reversed(image.ends)]


def _tasks(group: GroupDescription, definition: RebalanceSnapshot) -> list[TaskCopyAnswer]:
    changelogs = Changelogs(definition)
    tasks: list[tuple[TaskId, TaskCopyAnswer]] = []
    for member in group.members:
        sums = dict(member.subscribed.task_offset_sums) if member.subscribed else {}
        sums |= {copy.task_id: copy.offset_sum for copy in member.tasks if copy.offset_sum is not None}
        # if a member is away, its lags are unknown, although it still has its last assignment
        present = () if member.member.is_away else member.tasks
        lags = changelogs.lags_of([copy.task_id for copy in present], sums)
        for copy in member.tasks:
            lag, end_offset_sum = lags.get(copy.task_id, (None, None))
            answered = TaskCopyAnswer(
                task=str(copy.task_id),
                role=str(copy.role),
                member_id=member.member.member_id,
                process_id=None if member.process_id is None else str(member.process_id),
                lag=lag,
                end_offset_sum=end_offset_sum,
                left_ms=None if lag is None or lag <= 0 else time_left_ms(lag, copy.per_s),
                flow=None if copy.flow is None else FlowAnswer.model_validate(copy.flow),
            )
            tasks.append((copy.task_id, answered))
    tasks.sort(key=lambda each: (each[0], each[1].role))
    return [answered for _, answered in tasks]


def _last_rebalance(last: LastRebalance | None) -> LastRebalanceAnswer | None:
    if last is None:
        return None
    return LastRebalanceAnswer(
        generation_id=last.generation_id,
        reason=None if last.cause is None else last.cause.as_text(),
        outcome=str(last.end.outcome),
        error=last.end.error,
        error_code=last.end.error_code,
        missing_topics=list(last.basis.missing_topics),
        revision=last.definition_revision,
    )


def held_answer(held: DescribedHeld | None) -> HeldAnswer | None:
    return None if held is None else HeldAnswer.model_validate(held)


def drained_levers(
    group: GroupDescription, members: Sequence[GroupMemberAnswer], tasks: Sequence[TaskCopyAnswer]
) -> list[DrainedLever]:
    """Describes all drains of a group, with their progress. `members`, `tasks`: the members and tasks in the answer
    about the group.
    """
    drained = [each for _, each in sorted(group.image.levers.drained.items())]
    stays = _why_it_stays(group, members, drained)
    of_group = _missing_of_group(group, members)
    levers = []
    for each in drained:
        ids = {member.member_id for member in members if _is_meant(each, member)}
        missing = _active_tasks(ids, tasks, stays) + of_group
        levers.append(
            DrainedLever(
                process_id=each.process_id,
                member_id=each.member_id,
                safe_to_stop=not missing,
                missing=missing,
                **dict(LeverAnswer.model_validate(each)),
            )
        )
    return levers


def _missing_of_group(group: GroupDescription, members: Sequence[GroupMemberAnswer]) -> list[MissingForDrain]:
    """Returns the conditions that every drain of the group waits for."""
    last = group.image.last_rebalance
    late = sorted(member.member_id for member in _present(members) if not member.fetched)
    if group.held is not None:
        why = "a rebalance waits for approval"
    elif group.image.state is not GroupState.STABLE:
        why = "a rebalance is under way"
    elif late:
        why = f"not yet fetched its assignment: {', '.join(late)}"
    elif last is not None and last.end.outcome is RebalanceOutcome.FOLLOW_UP:
        why = "the rebalance that hands over its tasks comes next"
    else:
        return []
    return [MissingForDrain(task=None, role=None, why=why)]


def _present(members: Sequence[GroupMemberAnswer]) -> list[GroupMemberAnswer]:
    return [member for member in members if member.away_until_ms is None]


def _is_meant(drained: Lever, member: GroupMemberAnswer) -> bool:
    if drained.member_id is not None:
        return member.member_id == drained.member_id
    return member.process_id == drained.process_id


def _active_tasks(ids: set[str], tasks: Sequence[TaskCopyAnswer], stays: str | None) -> list[MissingForDrain]:
    """Returns the active tasks of the drained members. Each task has the reason why it has not moved yet. `ids`: the
    ids of the drained members. `stays`: the reason why no task of these members will move; None if the tasks will move.
    """
    elsewhere: dict[str, list[TaskCopyAnswer]] = {}
    for copy in tasks:
        if copy.member_id not in ids:
            elsewhere.setdefault(copy.task, []).append(copy)
    return [
        MissingForDrain(task=copy.task, role=copy.role, why=stays or _why(elsewhere.get(copy.task, [])))
        for copy in tasks
        if copy.member_id in ids and copy.role == Role.ACTIVE
    ]


def _why_it_stays(
    group: GroupDescription, members: Sequence[GroupMemberAnswer], drained: Sequence[Lever]
) -> str | None:
    """Returns the reason why the tasks of drained members will not move. Returns None if a rebalance that can move the
    tasks is under way or due. For example, no rebalance is due after an operator discarded one.
    """
    last = group.image.last_rebalance
    if group.image.state is not GroupState.STABLE or last is None or last.end.outcome in _MORE_TO_COME:
        return None
    present = _present(members)
    if all(any(_is_meant(each, member) for each in drained) for member in present):
        every = "every instance is drained or away" if len(present) < len(members) else "every instance is drained"
        return f"{every}, so nobody can have it: start another instance, or end a drain"
    return "the last rebalance kept it here, and no other one is due: start one (`assignor groups rebalance`)"


def _why(elsewhere: Sequence[TaskCopyAnswer]) -> str:
    """Returns the reason why a task of a drained member has not moved yet. `elsewhere`: the copies of this task on
    members that are not drained. If one of these copies is a warm-up, the reason names this warm-up. The process of the
    warm-up will be the next owner of the task.
    """
    waits = sorted(elsewhere, key=lambda copy: (copy.role != Role.WARM_UP, copy.member_id))
    if not waits:
        return "waits for its turn to be restored elsewhere (max.warmup.replicas)"
    copy = waits[0]
    is_known = copy.lag is not None and copy.lag >= 0
    behind = f"{copy.lag:,} records behind" if is_known else "how far it is behind is not known"
    return f"{copy.role} on {copy.member_id} of instance {copy.process_id}, {behind}"
