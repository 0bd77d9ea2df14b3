"""The class that a user's own assignor extends, and the class that runs users' assignors in the pipeline.

The pipeline validates the assignor's result, and calls `on_assignment_computed` with the result of the validation. If
validation finds a fatal error, the pipeline calls `on_assignment_computed` immediately, with an empty assignment. If
validation finds no fatal error, the pipeline calls `on_assignment_computed` after it has computed the whole assignment.
After any validation error, fatal or not, the rebalance fails with a StreamsException. Validation stops at the first
error. If validation finds an error that is not fatal, an unknown process in the assignor's result leads to a
NullPointerException instead.

If the assignor raises TaskAssignmentError, every member gets ASSIGNMENT_ERROR. If the assignor raises
MissingSourceTopicError, every member gets INCOMPLETE_SOURCE_TOPIC_METADATA. Any exception other than
TaskAssignmentError and MissingSourceTopicError makes the rebalance fail.
Source: `TaskAssignor`, `StreamsPartitionAssignor.processStreamsPartitionAssignment`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from assignor.assignment.application_state import ApplicationState
from assignor.assignment.task_assignment import (
    AssignedTaskType,
    KafkaStreamsAssignment,
    TaskAssignment,
    validate_task_assignment,
)
from assignor.errors import InputError, NullPointerError
from assignor.java.hash_codes import task_hash
from assignor.java.order import hash_set_order
from assignor.task_assignors.base import AssignmentError, ClientPlacement, Placement, PlacementProblem
from assignor.task_assignors.decisions import DecisionLog
from assignor.types import ProcessId, TaskId


class CustomTaskAssignor(ABC):
    """The base class of users' own assignors. The subclass is instantiated once, without arguments. `assign` may be
    called any number of times, for different groups.
    """

    @abstractmethod
    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Returns the assignment. An implementation raises TaskAssignmentError to make the group rebalance again."""

    # Subclasses may override this method.
    def on_assignment_computed(  # noqa: B027
        self, assignment: Mapping[str, bytes], subscription: Mapping[str, bytes], error: AssignmentError
    ) -> None:
        """Receives the result of the validation from the pipeline. `assignment`, `subscription`: the ConsumerProtocol
        bytes of each member, by member id. `assignment` is empty after a fatal error.
        """

    def in_pipeline(self, name: str) -> RunTaskAssignor:
        """Returns an object that runs this assignor in the pipeline. `name`: the assignor's name in configs."""
        return RunTaskAssignor(name, self)


class RunTaskAssignor:
    """Runs an assignor of the public interface in the pipeline (`PublicInterfaceAssignor`)."""

    def __init__(self, name: str, assignor: CustomTaskAssignor) -> None:
        self.name = name
        self._assignor = assignor

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        """Calls the assignor and checks its result. Raises InputError if the result is not a TaskAssignment."""
        state = ApplicationState(problem, log)
        answer = self._assignor.assign(state)
        _check_types(answer, self.name)
        error = validate_task_assignment(state, answer)
        if not error.is_fatal:
            _check_processes(answer, problem)
        clients = dict.fromkeys(problem.clients, ClientPlacement(frozenset(), frozenset()))
        deadlines_ms: dict[ProcessId, int] = {}
        for assignment in answer.assignment:
            clients[assignment.process_id] = _client_placement(assignment)
            if assignment.followup_rebalance_deadline_ms is not None:
                deadlines_ms[assignment.process_id] = assignment.followup_rebalance_deadline_ms
        return Placement(False, clients, error, deadlines_ms)

    def on_assignment_computed(
        self, assignment: Mapping[str, bytes], subscription: Mapping[str, bytes], error: AssignmentError
    ) -> None:
        self._assignor.on_assignment_computed(assignment, subscription, error)


def _client_placement(assignment: KafkaStreamsAssignment) -> ClientPlacement:
    """Converts a client's assignment. The tasks are in Kafka's order: Kafka copies them from a HashMap into two
    HashSets. Source: `ClientState.setAssignedTasks`.
    """
    active: list[TaskId] = []
    standby: list[TaskId] = []
    for task, copy in assignment.tasks.items():
        (active if copy.type is AssignedTaskType.ACTIVE else standby).append(task)
    return ClientPlacement(
        frozenset(active),
        frozenset(standby),
        active_order=tuple(hash_set_order(active, task_hash)),
        standby_order=tuple(hash_set_order(standby, task_hash)),
    )


def _check_processes(answer: TaskAssignment, problem: PlacementProblem) -> None:
    """Raises NullPointerError if the assignment names a process that the group does not have."""
    for each in answer.assignment:
        if each.process_id not in problem.clients:
            raise NullPointerError(
                'Cannot read field "state" because "clientMetadata" is null',
                f"{each.process_id} is no client of this group",
            )


def _check_types(answer: object, name: str) -> None:
    """Checks the types of the assignor's result, because Python has no compiler that checks types."""
    if not isinstance(answer, TaskAssignment):
        raise InputError(f"{name} returned {type(answer).__name__} instead of a TaskAssignment", "assignor")
    for each in answer.assignment:
        if not isinstance(each, KafkaStreamsAssignment):
            raise InputError(
                f"{name} returned {type(each).__name__} instead of a KafkaStreamsAssignment in its TaskAssignment",
                "assignor",
            )
