"""The class that a user's own assignor extends, and how the pipeline runs it.

What the pipeline does with the answer: with an error that is fatal the assignor hears of it with an empty assignment,
and with another one, or none, when the whole assignment is made; in both cases of an error the rebalance then fails
with a StreamsException. An answer that names a process which is not there, and has another error that Kafka finds
first, fails it at once with a NullPointerException. An assignor that raises TaskAssignmentError has every member told
ASSIGNMENT_ERROR; with MissingSourceTopicError it is INCOMPLETE_SOURCE_TOPIC_METADATA. Whatever else it raises fails the
rebalance.
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
    """Made without arguments, once; `assign` may be called any number of times, for any group."""

    @abstractmethod
    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Raises TaskAssignmentError when the group is to try again."""

    def on_assignment_computed(  # noqa: B027 - nobody has to listen
        self, assignment: Mapping[str, bytes], subscription: Mapping[str, bytes], error: AssignmentError
    ) -> None:
        """Hears what became of the answer. `assignment`, `subscription`: ConsumerProtocol bytes by member; no
        assignment with a fatal error.
        """

    def in_pipeline(self, name: str) -> RunTaskAssignor:
        """`name`: how it is named in configs."""
        return RunTaskAssignor(name, self)


class RunTaskAssignor:
    """An assignor of the public interface, as the pipeline runs it (`PublicInterfaceAssignor`)."""

    def __init__(self, name: str, assignor: CustomTaskAssignor) -> None:
        self.name = name
        self._assignor = assignor

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        """Raises InputError when the answer is no TaskAssignment."""
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
    """Kafka collects the tasks of a HashMap in two HashSets. Source: `ClientState.setAssignedTasks`."""
    active: list[TaskId] = []
    standby: list[TaskId] = []
    for task in hash_set_order(assignment.tasks, task_hash):
        is_active = assignment.tasks[task].type is AssignedTaskType.ACTIVE
        (active if is_active else standby).append(task)
    return ClientPlacement(
        frozenset(active),
        frozenset(standby),
        active_order=tuple(hash_set_order(active, task_hash)),
        standby_order=tuple(hash_set_order(standby, task_hash)),
    )


def _check_processes(answer: TaskAssignment, problem: PlacementProblem) -> None:
    """Raises NullPointerError."""
    for each in answer.assignment:
        if each.process_id not in problem.clients:
            raise NullPointerError(
                'Cannot read field "state" because "clientMetadata" is null',
                f"{each.process_id} is no client of this group",
            )


def _check_types(answer: object, name: str) -> None:
    """In Java the compiler does it."""
    if not isinstance(answer, TaskAssignment):
        raise InputError(f"{name} returned {type(answer).__name__} instead of a TaskAssignment", "assignor")
    for each in answer.assignment:
        if not isinstance(each, KafkaStreamsAssignment):
            raise InputError(
                f"{name} returned {type(each).__name__} instead of a KafkaStreamsAssignment in its TaskAssignment",
                "assignor",
            )
