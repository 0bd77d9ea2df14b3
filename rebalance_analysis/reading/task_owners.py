"""Reads the owners of each task from a line that has an output. A line with an output is a recording, or was written by
`assignor assign`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from assignor.protocol.assignment_info import decode_assignment_info
from assignor.protocol.consumer_protocol import decode_assignment
from assignor.recording.fields import as_bytes, as_object, as_task_id, child, list_items, object_entries
from assignor.types import TaskId


@dataclass(slots=True)
class TaskOwners:
    """The owners of each task. In rebalance/1, the owners are members. In placement/1, the owners are processes."""

    active: dict[TaskId, list[str]] = field(default_factory=dict)
    standby: dict[TaskId, list[str]] = field(default_factory=dict)


def owners_in(document: Mapping[str, object]) -> TaskOwners:
    """Reads the task owners from the document of a line. Raises InputError if the document has no output that can be
    used. Raises DecodeError if assignment bytes cannot be decoded.
    """
    output = as_object(document.get("output"), "output")
    if "clients" in output:
        return _of_clients(output["clients"])
    return _of_assignments(output.get("assignments"))


def tasks_of(before: TaskOwners, after: TaskOwners) -> set[TaskId]:
    """Returns every task that has an owner in `before` or in `after`."""
    return {*before.active, *before.standby, *after.active, *after.standby}


def owner_moves(before: TaskOwners, after: TaskOwners) -> Iterator[dict[str, object]]:
    """Yields an object for each task whose owners differ, sorted by task. The object has the fields `task`, `active`
    and `standby`. `active` has the fields `from` and `to`, or is None if the active owners are equal. `standby` has the
    fields `gone` and `new`.
    """
    for task in sorted(tasks_of(before, after)):
        move = _move(task, before, after)
        if move is not None:
            yield move


def _move(task: TaskId, before: TaskOwners, after: TaskOwners) -> dict[str, object] | None:
    old, new = before.active.get(task, ()), after.active.get(task, ())
    old_standby, new_standby = set(before.standby.get(task, ())), set(after.standby.get(task, ()))
    if set(old) == set(new) and old_standby == new_standby:
        return None
    return {
        "task": str(task),
        "active": {"from": sorted(old), "to": sorted(new)} if set(old) != set(new) else None,
        "standby": {"gone": sorted(old_standby - new_standby), "new": sorted(new_standby - old_standby)},
    }


def _of_clients(clients: object) -> TaskOwners:
    owners = TaskOwners()
    for process_id, client, where in object_entries(clients, "output.clients"):
        entry = as_object(client, where)
        for role, by_task in (("active", owners.active), ("standby", owners.standby)):
            for task, at in list_items(entry.get(role), child(where, role)):
                by_task.setdefault(as_task_id(task, at), []).append(process_id)
    return owners


def _of_assignments(assignments: object) -> TaskOwners:
    owners = TaskOwners()
    for member_id, raw, where in object_entries(assignments, "output.assignments"):
        info = decode_assignment_info(decode_assignment(as_bytes(raw, where)).user_data or b"")
        for task in dict.fromkeys(info.active_tasks):
            owners.active.setdefault(task, []).append(member_id)
        for task in info.standby_tasks:
            owners.standby.setdefault(task, []).append(member_id)
    return owners
