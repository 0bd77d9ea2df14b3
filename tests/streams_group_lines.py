"""Lines of streams_group/1: what a broker's assignor for streams groups was asked, and its answer by member.

`members`: by id, in the order in which the broker's map got them; each with its process, and what it had. `output`: the
tasks of each member, `active`, `standby` and `warm_up`, as Kafka's own class placed them.
"""

from typing import Any

from assignor.kafka_versions import version_of_release
from assignor.task_assignors.streams_groups.member_sticky import MemberSpec, StreamsGroupPlacement
from assignor.types import TaskId

Line = dict[str, Any]


def placed_here(line: Line) -> dict[str, dict[str, list[str]]]:
    """In the form of `output`."""
    subtopologies = line["subtopologies"].items()
    members = {
        member: MemberSpec(
            each["process_id"],
            _tasks(each["active"]),
            _tasks(each["standby"]),
            {TaskId.parse(task): offset for task, offset in each.get("task_offsets", {}).items()},
        )
        for member, each in line["members"].items()
    }
    tasks = [TaskId(int(name), number) for name, each in subtopologies for number in range(each["partitions"])]
    stateful = [task for task in tasks if line["subtopologies"][str(task.subtopology)]["stateful"]]
    rules = version_of_release(line.get("kafka_version", "4.3.1")).rules
    placed = StreamsGroupPlacement(members, tasks, stateful, line["num_standby_replicas"], rules).solved()
    return {
        member: {"active": _names(placed[member].active), "standby": _names(placed[member].standby), "warm_up": []}
        for member in members
    }


def _tasks(names: list[str]) -> frozenset[TaskId]:
    return frozenset(map(TaskId.parse, names))


def _names(tasks: frozenset[TaskId]) -> list[str]:
    return sorted(map(str, tasks))
