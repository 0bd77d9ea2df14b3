"""Converts a line of streams_group/1 to a placement problem. So what-if, forecasts and sweeps can use the line, and can
compare the broker's assignor with other assignors.
"""

from assignor.clients.client_state import TaskLags
from assignor.configs import AssignmentConfigs
from assignor.errors import InputError
from assignor.recording import RecordedPlacement
from assignor.recording.streams_group import RecordedStreamsGroup
from assignor.task_assignors.base import PlacementClient, PlacementProblem
from assignor.task_assignors.streams_groups.adapter import StreamsGroupStickyTaskAssignor
from assignor.task_assignors.streams_groups.member_sticky import MemberSpec
from assignor.types import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, ProcessId, TaskId


def as_placement(recorded: RecordedStreamsGroup) -> RecordedPlacement:
    """Returns the line as a placement problem of the broker's assignor, without output. A process becomes a client that
    has one thread for each of its members. The lag of a task is known if at least one member reports the end offset of
    the task. Raises InputError if a process id is not a UUID, because the id of a client in a placement problem is a
    UUID.
    """
    ends: dict[TaskId, int] = {}
    for member in recorded.members.values():
        for task, end in member.task_end_offsets.items():
            ends[task] = max(end, ends.get(task, 0))
    processes: dict[ProcessId, dict[str, MemberSpec]] = {}
    for member_id, member in recorded.members.items():
        try:
            process = ProcessId.parse(member.process_id)
        except InputError as error:
            raise InputError(f"{error}; `assignor assign` can run this line", f"members.{member_id}") from None
        processes.setdefault(process, {})[member_id] = member
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
            lags[task] = max(ends[task] - offset, 0) if task in ends else UNKNOWN_OFFSET_SUM
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
    )
