"""What a rebalance may decide, and what may be recorded: rules on the records of one write and the image after them."""

from collections.abc import Iterator
from functools import lru_cache

from assignor.protocol.consumer_protocol import decode_subscription
from assignor.types import TaskId
from coordinator_api.group.image import ClassicGroupMember, GroupImage
from coordinator_api.group.records import GenerationStarted, GroupEmptied, MemberRemoved, RebalanceCompleted
from coordinator_api.group.states import RebalanceOutcome, RemovalReason
from coordinator_api.group.subscriptions import assigned_tasks, process_of
from tests.simulation.cluster import TASKS
from tests.simulation.database import Write
from tests.simulation.rule_names import Rule

_LATE = (RemovalReason.REBALANCE_TIMEOUT, RemovalReason.ASSIGNMENT_NOT_FETCHED)


def broken_by(write: Write, before: GroupImage) -> Iterator[tuple[str, str]]:
    """The rule, and what broke it. `before`: the image that the write follows."""
    image, generation_id, was_held = write.image, before.generation_id, before.held is not None
    for record in write.records:
        match record:
            case GenerationStarted(started) | GroupEmptied(started):
                if started <= generation_id:
                    yield Rule.GENERATIONS_RISE, f"{started} follows {generation_id}"
                generation_id = started
            case MemberRemoved(member_id, reason) if was_held and reason in _LATE:
                yield Rule.NOT_LATE_WHILE_HELD, f"{member_id}: {reason}"
            case RebalanceCompleted(end=end, generation_id=completed):
                was_held = False
                if completed == image.generation_id and end.outcome is not RebalanceOutcome.ERROR:
                    yield from _of_placement(image)
    if image.held is not None:
        owned = {task for member in image.members.values() for task in _owned(member)}
        if owned != set(TASKS):
            yield Rule.HELD_HAS_OWNERS, f"{sorted(set(TASKS) - owned)}"


def _of_placement(image: GroupImage) -> Iterator[tuple[str, str]]:
    owners: dict[TaskId, str] = {}
    in_process: dict[tuple[object, TaskId], str] = {}
    claims: dict[TaskId, list[str]] = {}
    for member_id, member in image.members.items():
        if image.takes_part(member):
            for task in _owned(member):
                claims.setdefault(task, []).append(member_id)
    for member_id, member in image.members.items():
        if member.last_assignment.generation_id != image.generation_id or member.last_assignment.assignment is None:
            continue
        process = process_of(member.last_join.subscription)
        tasks = assigned_tasks(member.last_assignment.assignment)
        for task in (*tasks.active, *tasks.standby):
            if (process, task) in in_process:
                yield Rule.NOT_BOTH, f"{task} at {member_id} and {in_process[process, task]}"
            in_process[process, task] = member_id
        for task in tasks.active:
            if task in owners:
                yield Rule.ONE_OWNER, f"{task} is assigned to {owners[task]} and {member_id}"
            owners[task] = member_id
            others = [one for one in claims.get(task, ()) if one != member_id]
            if len(others) == 1 and len(claims[task]) == 1:
                yield Rule.GIVEN_UP_FIRST, f"{task} is assigned to {member_id}, and {others[0]} has it"


def _owned(member: ClassicGroupMember) -> frozenset[TaskId]:
    """What it said it has. The tasks of a member that is away wait for it: those, and what it was assigned since."""
    said = _claimed(member.last_join.subscription)
    if member.is_away and member.last_assignment.assignment is not None:
        said |= frozenset(assigned_tasks(member.last_assignment.assignment).active)
    return said


@lru_cache(maxsize=256)
def _claimed(subscription: bytes) -> frozenset[TaskId]:
    owned = decode_subscription(subscription).owned_partitions
    return frozenset(TaskId(0, partition.partition) for partition in owned)
