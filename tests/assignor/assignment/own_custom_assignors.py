"""Assignors of the public interface, as users might write them, right and wrong ones."""

from collections.abc import Callable, Mapping

from assignor.assignment import (
    ApplicationState,
    AssignedTask,
    AssignmentError,
    CustomTaskAssignor,
    KafkaStreamsAssignment,
    TaskAssignment,
    default_standby_task_assignment,
)
from assignor.types import ProcessId, TaskId

NOBODY = ProcessId.parse("00000000-0000-0000-0000-00000000dead")
NO_TASK = TaskId(99, 0)


class EverythingOnTheFirst(CustomTaskAssignor):
    """The first client by process id runs all tasks; standbys by Kafka's default."""

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        processes = sorted(application_state.kafka_streams_states())
        tasks = [AssignedTask.active(task) for task in sorted(application_state.all_tasks)]
        assignments = {process: KafkaStreamsAssignment(process) for process in processes}
        assignments[processes[0]] = KafkaStreamsAssignment(processes[0], tasks)
        default_standby_task_assignment(application_state, assignments)
        return TaskAssignment(list(assignments.values()))


Change = Callable[[list[KafkaStreamsAssignment], ApplicationState], None]


class Changed(EverythingOnTheFirst):
    """Does something to that answer, and keeps what it hears."""

    def __init__(self, change: Change) -> None:
        self._change = change
        self.heard: list[tuple[int, int, AssignmentError]] = []

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        answer = list(super().assign(application_state).assignment)
        self._change(answer, application_state)
        return TaskAssignment(answer)

    def on_assignment_computed(
        self, assignment: Mapping[str, bytes], subscription: Mapping[str, bytes], error: AssignmentError
    ) -> None:
        self.heard.append((len(assignment), len(subscription), error))


class AnswersNonsense(CustomTaskAssignor):
    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        return {"0_0": "everywhere"}  # type: ignore[return-value]


class AnswersNonsenseWithin(CustomTaskAssignor):
    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        return TaskAssignment(["everywhere"])  # type: ignore[list-item]


class RaisesWhenItHears(EverythingOnTheFirst):
    def on_assignment_computed(
        self, assignment: Mapping[str, bytes], subscription: Mapping[str, bytes], error: AssignmentError
    ) -> None:
        raise ZeroDivisionError("nobody to hear it")


class HasNoAssign(CustomTaskAssignor):
    pass
