"""Turns a line of streams_group/1 into a placement problem, so that what-if, forecasts and sweeps can use the line, and
compare the broker's assignor with other assignors.
"""

from dataclasses import replace

from assignor.clients.client_state import TaskLags
from assignor.configs import AssignmentConfigs
from assignor.errors import InputError
from assignor.recording import RecordedPlacement
from assignor.recording.streams_group import RecordedStreamsGroup
from assignor.task_assignors.base import MemberSpec, PlacementClient, PlacementProblem
from assignor.task_assignors.streams_groups.adapter import StreamsGroupStickyTaskAssignor
from assignor.types import JAVA_LONG_MAX, LATEST_OFFSET, UNKNOWN_OFFSET_SUM, ProcessId, TaskId


def as_placement(recorded: RecordedStreamsGroup) -> RecordedPlacement:
    """Returns the line as a placement problem of the broker's assignor, without output. A process becomes a client with
    one thread for each of its members.

    The lag of a task is counted from the highest end offset that a member reports. If no member reports an end offset,
    the lag is counted from the highest offset, so that the members keep their order. Raises InputError for a process id
    that is not a UUID, because clients of a placement problem have UUIDs.
    """
    ends: dict[TaskId, int] = {}
    for member in recorded.members.values():
        for task, end in [*member.task_offsets.items(), *member.task_end_offsets.items()]:
            if end < JAVA_LONG_MAX:  # a member reports JAVA_LONG_MAX if it does not know the offset yet
                ends[task] = max(end, ends.get(task, 0))
    processes: dict[ProcessId, dict[str, MemberSpec]] = {}
    for member_id, member in recorded.members.items():
        try:
            process = ProcessId.parse(member.process_id)
        except InputError as error:
            raise InputError(f"{error}; `assignor assign` can run this line", f"members.{member_id}") from None
        processes.setdefault(process, {})[member_id] = replace(member, process_id=str(process))
    configs = AssignmentConfigs(
        num_standby_replicas=recorded.num_standby_replicas, kafka_version=recorded.kafka_version
    )
    clients = {process: _client(process, members, recorded, ends) for process, members in processes.items()}
    problem = PlacementProblem(configs, recorded.tasks, recorded.stateful, clients)
    return RecordedPlacement(recorded.id, StreamsGroupStickyTaskAssignor.name, problem)


def _client(
    process: ProcessId, members: dict[str, MemberSpec], recorded: RecordedStreamsGroup, ends: dict[TaskId, int]
) -> PlacementClient:
    active_owners = {task: member_id for member_id, member in members.items() for task in member.active}
    reported = {
        member_id: tuple(sorted({*member.standby, *member.task_offsets} - active_owners.keys()))
        for member_id, member in members.items()
    }
    lags: dict[TaskId, int] = {}
    for member in members.values():
        for task, offset in member.task_offsets.items():
            if offset < JAVA_LONG_MAX:
                lags[task] = min(ends[task] - offset, lags.get(task, JAVA_LONG_MAX))
    lags.update(dict.fromkeys(active_owners, LATEST_OFFSET))
    without_state = {task: ends.get(task, UNKNOWN_OFFSET_SUM) for task in recorded.stateful}
    return PlacementClient(
        process_id=process,
        capacity=len(members),
        lags=TaskLags(lags, without_state),
        consumers=tuple(members),
        previous_active=frozenset(active_owners),
        previous_standby=frozenset(task for tasks in reported.values() for task in tasks),
        tags=next(iter(members.values())).tags,
        reported_tasks=reported,
        active_owners=active_owners,
        members=members,
    )
