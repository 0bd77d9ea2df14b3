"""Reads streams_group/1: the input of a broker's task assignor for a streams group (KIP-1071), and its result.

Source: `GroupSpec`, `TopologyDescriber` and `GroupAssignment` of `org.apache.kafka.coordinator.group.api.streams`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from assignor.clients.client_state import TaskLags
from assignor.configs import AssignmentConfigs
from assignor.configs.kafka_versions import VERSION_WITHOUT_A_NAME, KafkaVersion, version_of_release
from assignor.errors import InputError
from assignor.recording.fields import (
    MAX_PARTITIONS,
    RECORDING_FIELDS,
    Fields,
    as_boolean,
    as_choice,
    as_integer,
    as_long,
    as_release,
    as_task_id,
    as_text,
    by_name,
    each_of,
    object_entries,
)
from assignor.recording.placement import RecordedPlacement
from assignor.task_assignors.base import MemberSpec, PlacementClient, PlacementProblem
from assignor.task_assignors.streams_groups.adapter import StreamsGroupStickyTaskAssignor
from assignor.task_assignors.streams_groups.member_sticky import MemberAssignment
from assignor.types import JAVA_INT_MAX, JAVA_LONG_MAX, LATEST_OFFSET, UNKNOWN_OFFSET_SUM, ProcessId, TaskId

STREAMS_GROUP_FORMAT = "streams_group/1"


@dataclass(frozen=True, slots=True)
class RecordedStreamsGroup:
    """A line of streams_group/1. `members`: the members by member id, in the order in which they were added to the
    broker's map. `tasks`: the tasks of all subtopologies. `stateful`: the tasks with a changelog. `output`: the
    recorded result; None if the line has no output. `error`: the error of the broker's assignor, "SimpleName: message".
    """

    id: str
    kafka_version: KafkaVersion
    members: Mapping[str, MemberSpec]
    tasks: tuple[TaskId, ...]
    stateful: tuple[TaskId, ...]
    num_standby_replicas: int
    output: Mapping[str, MemberAssignment] | None = None
    error: str | None = None


def parse_recorded_streams_group(document: Mapping[str, object]) -> RecordedStreamsGroup:
    """Reads a whole line of streams_group/1. Raises InputError with the path of the mistake."""
    fields = Fields(
        document,
        "",
        ("format", "id", "num_standby_replicas", "subtopologies", "members"),
        ("source", "rack_aware_assignment_tags", "output", "error", *RECORDING_FIELDS),
    )
    fields.read("format", lambda value, where: as_choice(value, where, (STREAMS_GROUP_FORMAT,)))
    fields.read_or_none("rack_aware_assignment_tags", each_of(as_text))
    fields.text_or_none("source")
    release = fields.read_or_none("kafka_version", as_release)
    tasks: list[TaskId] = []
    stateful: list[TaskId] = []
    for of_subtopology, has_state in fields.read("subtopologies", _as_subtopologies):
        tasks += of_subtopology
        stateful += of_subtopology if has_state else []
    return RecordedStreamsGroup(
        id=fields.text("id"),
        kafka_version=VERSION_WITHOUT_A_NAME if release is None else version_of_release(release),
        members=fields.read("members", by_name(_as_member)),
        tasks=tuple(tasks),
        stateful=tuple(stateful),
        num_standby_replicas=fields.read(
            "num_standby_replicas", lambda value, where: as_integer(value, where, 0, JAVA_INT_MAX)
        ),
        output=fields.read_or_none("output", by_name(_as_assignment)),
        error=fields.text_or_none("error"),
    )


def as_placement(recorded: RecordedStreamsGroup) -> RecordedPlacement:
    """Returns the placement problem of the line, for the broker's assignor. The field `output` of the result is None.
    What-if analyses, forecasts and sweeps use this problem. A process becomes a client with one thread for each of its
    members.

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


def _as_subtopologies(value: object, where: str) -> list[tuple[list[TaskId], bool]]:
    return list(_subtopologies(value, where))


def _subtopologies(value: object, where: str) -> Iterator[tuple[list[TaskId], bool]]:
    for name, entry, at in object_entries(value, where):
        fields = Fields(entry, at, ("partitions", "stateful"))
        first = as_task_id(f"{name}_0", at)
        partitions = fields.read("partitions", lambda value, path: as_integer(value, path, 0, MAX_PARTITIONS))
        yield [TaskId(first.subtopology, number) for number in range(partitions)], fields.read("stateful", as_boolean)


def _as_member(value: object, where: str) -> MemberSpec:
    """Reads a member. The member's rack, instance id and warm-ups have no effect on this assignor, so only their types
    are checked.
    """
    fields = Fields(
        value,
        where,
        ("process_id", "active", "standby"),
        ("warm_up", "instance_id", "rack", "tags", "task_offsets", "task_end_offsets"),
    )
    fields.read_or_none("warm_up", _as_tasks)
    fields.text_or_none("instance_id")
    fields.text_or_none("rack")
    return MemberSpec(
        fields.text("process_id"),
        fields.read("active", _as_tasks),
        fields.read("standby", _as_tasks),
        fields.read_or_none("task_offsets", _as_offsets) or {},
        fields.read_or_none("task_end_offsets", _as_offsets) or {},
        fields.read_or_none("tags", by_name(as_text)) or {},
    )


def _as_assignment(value: object, where: str) -> MemberAssignment:
    fields = Fields(value, where, ("active", "standby"), ("warm_up",))
    if fields.read_or_none("warm_up", _as_tasks):
        raise InputError("must be empty: this assignor has no warm-ups", fields.at("warm_up"))
    return MemberAssignment(fields.read("active", _as_tasks), fields.read("standby", _as_tasks))


def _as_tasks(value: object, where: str) -> frozenset[TaskId]:
    return frozenset(each_of(as_task_id)(value, where))


def _as_offsets(value: object, where: str) -> dict[TaskId, int]:
    return {as_task_id(key, at): as_long(offset, at) for key, offset, at in object_entries(value, where)}


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
