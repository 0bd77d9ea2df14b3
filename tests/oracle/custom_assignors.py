"""Assignors as users write them for Kafka's public interface; `CustomAssignors.java` has the same ones in Java.

Together they call everything that the interface has. What differs from group to group comes out of the state alone.
"""

from collections.abc import Mapping

from assignor import assignment as public
from assignor import errors
from assignor.types import ProcessId, TaskId

Placed = dict[ProcessId, public.KafkaStreamsAssignment]

_NOBODY = ProcessId.parse("00000000-0000-0000-0000-00000000dead")


class Identity(public.CustomTaskAssignor):
    """Everybody keeps what it had, whatever has become of the tasks."""

    def assign(self, application_state: public.ApplicationState) -> public.TaskAssignment:
        return public.TaskAssignment(list(public.identity_assignment(application_state).values()))


class Spread(public.CustomTaskAssignor):
    """Tasks in turn to the processes, both sorted; standbys by Kafka's default."""

    def assign(self, application_state: public.ApplicationState) -> public.TaskAssignment:
        placed = _spread(application_state)
        public.default_standby_task_assignment(application_state, placed)
        return public.TaskAssignment(list(placed.values()))


class SpreadInRacks(public.CustomTaskAssignor):
    """The same, and copies are swapped to save traffic. Only the processes that got a task are named at first."""

    def assign(self, application_state: public.ApplicationState) -> public.TaskAssignment:
        placed = {process: each for process, each in _spread(application_state).items() if each.tasks}
        everything = public.RackAwareOptimizationParams(application_state)
        public.optimize_rack_aware_active_tasks(everything, placed)
        public.default_standby_task_assignment(application_state, placed)
        public.optimize_rack_aware_standby_tasks(everything, placed)
        return public.TaskAssignment(list(placed.values()))


class SpreadAtOtherCosts(public.CustomTaskAssignor):
    """With costs of its own for each kind of task."""

    def assign(self, application_state: public.ApplicationState) -> public.TaskAssignment:
        placed = _spread(application_state)
        everything = public.RackAwareOptimizationParams(application_state)
        public.optimize_rack_aware_active_tasks(everything.for_stateful_tasks().with_traffic_cost(10), placed)
        stateless = everything.for_stateless_tasks().with_traffic_cost(1).with_non_overlap_cost(0)
        public.optimize_rack_aware_active_tasks(stateless, placed)
        public.default_standby_task_assignment(application_state, placed)
        public.optimize_rack_aware_standby_tasks(everything.with_traffic_cost(7).with_non_overlap_cost(3), placed)
        return public.TaskAssignment(list(placed.values()))


class OptimizesSome(public.CustomTaskAssignor):
    """Optimizes tasks of even partitions only, of standbys as well; of these Kafka may refuse it."""

    def assign(self, application_state: public.ApplicationState) -> public.TaskAssignment:
        placed = _spread(application_state)
        even = {task for task in application_state.all_tasks if task.partition % 2 == 0}
        everything = public.RackAwareOptimizationParams(application_state)
        public.optimize_rack_aware_active_tasks(everything.for_tasks(even), placed)
        public.default_standby_task_assignment(application_state, placed)
        copied = {
            task for task in even if any(each.has(task, public.AssignedTaskType.STANDBY) for each in placed.values())
        }
        public.optimize_rack_aware_standby_tasks(everything.for_tasks(copied), placed)
        return public.TaskAssignment(list(placed.values()))


class ByLag(public.CustomTaskAssignor):
    """Each task to the process that is least behind, or that has the most of it; stateless ones to the first."""

    def assign(self, application_state: public.ApplicationState) -> public.TaskAssignment:
        processes = dict(sorted(application_state.kafka_streams_states(compute_task_lags=True).items()))
        placed = _nothing(application_state)
        for task in sorted(application_state.all_tasks):
            least = next(iter(processes))
            for process in processes.values():
                lags = process.stateful_tasks_to_lag_sums()
                if task not in lags or _rank(process, task) >= _rank(processes[least], task):
                    continue
                if process.lag_for(task) == lags[task]:
                    least = process.process_id
            placed[least].assign_task(public.AssignedTask.active(task))
        return public.TaskAssignment(list(placed.values()))


def _rank(process: public.KafkaStreamsState, task: TaskId) -> int:
    """Its lag; a task that is first on one of its consumers counts as if it were a hundred nearer."""
    lag = process.lag_for(task)
    rank = lag // 2 if lag >= 0 else -(-lag // 2)
    for consumer in process.consumer_client_ids:
        if process.prev_tasks_by_lag(consumer)[:1] == (task,):
            rank -= 100
    return rank


class ByAllThatIsKnown(public.CustomTaskAssignor):
    """The place of a task is a sum over all that the interface says of it and of the processes."""

    def assign(self, application_state: public.ApplicationState) -> public.TaskAssignment:
        processes = [process for _, process in sorted(application_state.kafka_streams_states().items())]
        placed = _nothing(application_state)
        known = sum(map(_sum_of_process, processes))
        with_racks = application_state.assignment_configs.rack_aware
        for task in application_state.all_tasks.values():
            total = known + task.id.subtopology + 2 * task.id.partition
            total += 3 * len(task.state_store_names) + task.is_stateful
            for read in task.topic_partitions:
                total += len(read.topic_partition.topic) + read.topic_partition.partition
                total += 19 * read.is_source + 23 * read.is_changelog
                if with_racks:
                    total += 31 if read.rack_ids is None else 29 * len(read.rack_ids)
            placed[processes[total % len(processes)].process_id].assign_task(public.AssignedTask.active(task.id))
        return public.TaskAssignment(list(placed.values()))


def _sum_of_process(process: public.KafkaStreamsState) -> int:
    return (
        process.num_processing_threads
        + 3 * len(process.client_tags)
        + len(process.consumer_client_ids)
        + 5 * len(process.previous_active_tasks)
        + 7 * len(process.previous_standby_tasks)
        + (13 if process.host_info is None else process.host_info.port % 11)
        + (17 if process.rack_id is None else len(process.rack_id))
    )


class Preserving(public.StickyTaskAssignor):
    """Kafka's sticky one, in the mode that its own leader never asks for."""

    def __init__(self) -> None:
        super().__init__(must_preserve_active_task_assignment=True)


class Deadlines(Spread):
    """Spread, and some processes are told when to come again: at once, at a time, or twice."""

    def assign(self, application_state: public.ApplicationState) -> public.TaskAssignment:
        placed = list(super().assign(application_state).assignment)
        kind = _kind_of(application_state, 4)
        for place in range(kind, len(placed), 2):
            told = placed[place].with_followup_rebalance(-5 if kind == 3 else kind * 1_000_000_000_007 * place)
            if kind == 2:
                placed.append(told.with_followup_rebalance(0))
                break
            placed[place] = told
        return public.TaskAssignment(placed)


class Mistaken(Spread):
    """Spread, and then something is wrong with it, in each way that Kafka has a name for, or in two ways."""

    def assign(self, application_state: public.ApplicationState) -> public.TaskAssignment:
        placed = list(super().assign(application_state).assignment)
        first, last = placed[0], placed[-1]
        task = min(application_state.all_tasks)
        kind = _kind_of(application_state, 7)
        if kind == 0:
            last.assign_task(public.AssignedTask.active(task))
        elif kind == 1:
            unknown = TaskId(99, len(placed))
            last.assign_task(
                public.AssignedTask.active(unknown) if len(placed) % 3 == 0 else public.AssignedTask.standby(unknown)
            )
            last.assign_task(public.AssignedTask.active(task))
        elif kind == 2:
            for each in application_state.all_tasks:
                last.assign_task(public.AssignedTask.standby(each))
        elif kind == 3:
            del placed[0]
        elif kind == 4:
            placed.append(public.KafkaStreamsAssignment(_NOBODY))
        elif kind == 5:
            placed[0] = public.KafkaStreamsAssignment(_NOBODY)
        else:
            first.remove_task(public.AssignedTask.standby(task))
        answer = public.TaskAssignment(placed)
        error = public.validate_task_assignment(application_state, answer)
        if kind == 4 and error is not public.AssignmentError.UNKNOWN_PROCESS_ID:
            raise errors.IllegalStateError("validated otherwise")
        return answer


class Raising(Spread):
    """Fails, in each way that the leader has an answer to."""

    _kind = 0

    def assign(self, application_state: public.ApplicationState) -> public.TaskAssignment:
        self._kind = _kind_of(application_state, 8)
        process = next(iter(application_state.kafka_streams_states(self._kind == 4).values()))
        match self._kind:
            case 0:
                raise errors.TaskAssignmentError("later")
            case 1:
                raise errors.MissingSourceTopicError("gone")
            case 2:
                raise errors.StreamsError("no")
            case 3:
                raise errors.IllegalArgumentError("odd")
            case 4:
                process.lag_for(TaskId(99, 0))
            case 5:
                process.stateful_tasks_to_lag_sums()
        return super().assign(application_state)

    def on_assignment_computed(
        self, assignment: Mapping[str, bytes], subscription: Mapping[str, bytes], error: public.AssignmentError
    ) -> None:
        if self._kind == 6:
            raise errors.StreamsError(f"heard {len(assignment)} of {len(subscription)}: {error}")


def _nothing(state: public.ApplicationState) -> Placed:
    return {process: public.KafkaStreamsAssignment(process) for process in sorted(state.kafka_streams_states())}


def _spread(state: public.ApplicationState) -> Placed:
    placed = _nothing(state)
    in_turn = list(placed.values())
    for turn, task in enumerate(sorted(state.all_tasks)):
        in_turn[turn % len(in_turn)].assign_task(public.AssignedTask.active(task))
    return placed


def _kind_of(state: public.ApplicationState, kinds: int) -> int:
    """One of so many kinds of behaviour, always the same for a state."""
    processes = state.kafka_streams_states()
    total = 3 * len(state.all_tasks) + len(processes)
    for process in processes.values():
        total += len(process.previous_active_tasks) + process.num_processing_threads
    return total % kinds


OF_PLACEMENTS = ("Spread", "SpreadInRacks", "SpreadAtOtherCosts", "ByLag", "Preserving")
"""Those that answer every placement/1 without an error, which such a line cannot hold."""
OF_REBALANCES = (*OF_PLACEMENTS, "Identity", "OptimizesSome", "ByAllThatIsKnown", "Deadlines", "Mistaken", "Raising")
WITHOUT_DEFINED_BYTES = ("Identity",)
"""Kafka gathers its tasks in a HashSet, by a hash code that is another one in each JVM, that of an enum's value. With
crowded buckets it decides the order of standbys in the bytes.
"""
