"""The rules that every placement must keep, checked on what a task assignor returned.

Source: `TaskAssignmentUtils.validateTaskAssignment` and `StreamsPartitionAssignor`, which throws a StreamsException
with the name of the `AssignmentError`. Differs from Kafka: there a task that nobody runs is accepted, and two copies
on one client cannot be expressed; here both are errors. An assignor of the public interface is checked by Kafka's own
rules (`assignor.assignment`), and these are not asked.
"""

from __future__ import annotations

from enum import StrEnum

from assignor.errors import StreamsError
from assignor.task_assignors.base import AssignmentError, Placement, PlacementProblem


class AssignmentFault(StrEnum):
    """Kafka's `AssignmentError`, and at the end two faults that Kafka does not have."""

    ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES = "ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES"
    INVALID_STANDBY_TASK = "INVALID_STANDBY_TASK"
    MISSING_PROCESS_ID = "MISSING_PROCESS_ID"
    UNKNOWN_PROCESS_ID = "UNKNOWN_PROCESS_ID"
    UNKNOWN_TASK_ID = "UNKNOWN_TASK_ID"
    TASK_WITHOUT_ACTIVE = "TASK_WITHOUT_ACTIVE"
    TWO_COPIES_ON_ONE_CLIENT = "TWO_COPIES_ON_ONE_CLIENT"


_FATAL = frozenset(error.value for error in AssignmentError if error.is_fatal)


def validate_placement(problem: PlacementProblem, placement: Placement, assignor: str = "the task assignor") -> None:
    """Raises StreamsError for the first fault; `assignor` is its name in the message."""
    if placement.assignment_error is not None:
        if placement.is_refused:
            raise refusal(placement.assignment_error, assignor)
        return
    fault = _first_fault(problem, placement)
    if fault is not None:
        name, detail = fault
        raise refusal(name, assignor, detail)


def refusal(name: str, assignor: str, detail: str | None = None) -> StreamsError:
    """What Kafka's leader throws. `name`: of the error; `detail`: what more is known of it."""
    severity = "a fatal error" if name in _FATAL else "an error"
    return StreamsError(f"Task assignment with {assignor} returned {severity}: {name}", detail)


def _first_fault(problem: PlacementProblem, placement: Placement) -> tuple[AssignmentFault, str] | None:
    return (
        _fault_of_tasks(problem, placement)
        or _fault_of_clients(problem, placement)
        or _fault_beyond_kafka(problem, placement)
    )


def _fault_of_tasks(problem: PlacementProblem, placement: Placement) -> tuple[AssignmentFault, str] | None:
    tasks = frozenset(problem.tasks)
    all_are_stateful = len(problem.stateful_tasks) == len(problem.tasks)
    stateful = tasks if all_are_stateful else frozenset(problem.stateful_tasks)
    running: set[object] = set()
    for process, client in placement.clients.items():
        for copies in (client.active, client.standby):
            if not copies <= tasks:
                unknown = min(copies - tasks)
                return AssignmentFault.UNKNOWN_TASK_ID, f"{unknown} on {process} is no task of this group"
        if not running.isdisjoint(client.active):
            twice = min(task for task in client.active if task in running)
            return AssignmentFault.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES, f"{twice} on {process} and on another client"
        running |= client.active
    for process, client in placement.clients.items():
        if not client.standby <= stateful:
            stateless = min(client.standby - stateful)
            return AssignmentFault.INVALID_STANDBY_TASK, f"{stateless} on {process} is stateless"
    return None


def _fault_of_clients(problem: PlacementProblem, placement: Placement) -> tuple[AssignmentFault, str] | None:
    if placement.clients.keys() == problem.clients.keys():
        return None
    missing = problem.clients.keys() - placement.clients.keys()
    if missing:
        return AssignmentFault.MISSING_PROCESS_ID, f"{min(missing)} has no entry"
    unknown = min(placement.clients.keys() - problem.clients.keys())
    return AssignmentFault.UNKNOWN_PROCESS_ID, f"{unknown} is no client of this group"


def _fault_beyond_kafka(problem: PlacementProblem, placement: Placement) -> tuple[AssignmentFault, str] | None:
    running = [client.active for client in placement.clients.values()]
    if sum(map(len, running)) < len(problem.tasks):  # each of them is a task, and runs once
        without_active = frozenset(problem.tasks).difference(*running)
        return AssignmentFault.TASK_WITHOUT_ACTIVE, f"nobody runs {min(without_active)}"
    for process, client in placement.clients.items():
        if not client.active.isdisjoint(client.standby):
            twice = min(client.active & client.standby)
            return AssignmentFault.TWO_COPIES_ON_ONE_CLIENT, f"{twice} is both active and standby on {process}"
        if not client.warm_ups <= client.standby:
            stray = min(client.warm_ups - client.standby)
            return AssignmentFault.INVALID_STANDBY_TASK, f"{stray} warms up on {process}, but is no standby there"
    return None
