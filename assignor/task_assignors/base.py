"""The interface of task assignors. The pipeline gives a placement problem to a task assignor, which returns a
placement.

The input of a task assignor contains tasks, clients, lags, and the racks of partitions (KIP-925). The input of a task
assignor does not contain topics, bytes or threads. Assignors are pure: the same problem gives the same placement. An
assignor appends the reasons for its placement to the log of decisions. The pipeline also runs assignors of Kafka's
public interface (KIP-924, `assignor.assignment`) through the interface in this file.

`validate_placement` checks the rules that every placement must obey. If a rule is broken, `validate_placement` raises
the error of Kafka's leader: a StreamsException with the name of the `AssignmentError`. Differs from Kafka: it is an
error here if no client runs a task, while Kafka accepts this. Two copies of a task on one client are an error here,
while Kafka's classes cannot represent them. The placement of an assignor of the public interface is checked by Kafka's
own rules only.

Source: `LegacyTaskAssignor`, `TaskAssignor.AssignmentError`, `TaskAssignmentUtils.validateTaskAssignment`,
`RackAwareTaskAssignor.racksForPartition`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from assignor.clients.client_state import TaskLags
from assignor.configs import AssignmentConfigs
from assignor.errors import StreamsError
from assignor.task_assignors.decisions import DecisionLog
from assignor.topology.cluster import Racks
from assignor.types import HostInfo, ProcessId, TaskId, TopicPartition

PartitionRacks = Mapping[str, tuple[Racks, ...]]
"""The racks of each partition of each topic, by topic."""


class RacksOnDemand(Mapping[str, tuple[Racks, ...]]):
    """A `partition_racks` mapping that is computed at its first use. Without a rack-aware strategy, only reports use
    the racks.
    """

    def __init__(self, look_up: Callable[[], PartitionRacks]) -> None:
        self._look_up = look_up
        self._found: PartitionRacks | None = None

    def _racks(self) -> PartitionRacks:
        if self._found is None:
            self._found = self._look_up()
        return self._found

    def __getitem__(self, topic: str) -> tuple[Racks, ...]:
        return self._racks()[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self._racks())

    def __len__(self) -> int:
        return len(self._racks())


@dataclass(frozen=True, slots=True)
class RackInformation:
    """The partitions of tasks, and the racks of partitions.

    `task_partitions`: the source partitions of every task. `changelog_partitions`: the changelog partitions of every
    stateful task. `partition_racks[topic][p]`: the racks of the brokers with a replica of partition p; unknown topics
    are absent.
    """

    task_partitions: Mapping[TaskId, tuple[TopicPartition, ...]] = field(default_factory=dict)
    changelog_partitions: Mapping[TaskId, tuple[TopicPartition, ...]] = field(default_factory=dict)
    partition_racks: PartitionRacks = field(default_factory=dict)

    def racks_of(self, partition: TopicPartition) -> Racks | None:
        """Returns the racks of the brokers with a replica of the partition. Returns None if the racks are unknown, or
        if one of the brokers has no rack.
        """
        racks = self.partition_racks.get(partition.topic, ())
        known = racks[partition.partition] if partition.partition < len(racks) else None
        return known if known and None not in known else None

    def known_racks_of(self, partition: TopicPartition) -> frozenset[str] | None:
        """Returns the racks of the brokers with a replica of the partition. Ignores brokers without a rack. Returns
        None if no replica is known.

        Source: `RackUtils.annotateTopicPartitionsWithRackInfo`.
        """
        racks = self.partition_racks.get(partition.topic, ())
        known = racks[partition.partition] if partition.partition < len(racks) else None
        return frozenset([rack for rack in known if rack is not None]) if known else None

    def knows_sources(self) -> bool:
        """True if the racks of every source partition are known."""
        return all(
            self.racks_of(partition) is not None
            for partitions in self.task_partitions.values()
            for partition in partitions
        )

    def knows_changelogs(self) -> bool:
        """True if every changelog topic is known, with the racks of all its partitions.

        As in Kafka, `knows_changelogs` checks the known partitions of each topic. The method does not check if the
        tasks need other partitions. If a topic lacks a partition that a task needs, a later step raises an error.
        """
        topics = {partition.topic for partitions in self.changelog_partitions.values() for partition in partitions}
        return all(
            topic in self.partition_racks and all(racks and None not in racks for racks in self.partition_racks[topic])
            for topic in topics
        )


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member of a streams group (KIP-1071) before the rebalance. `process_id`: a text, because the hash of the text
    determines the iteration order. `active`, `standby`: the member's previous tasks. `task_offsets`: for each task with
    state on the member's disk, the sum of changelog offsets that the member reports. Only Kafka 4.4 uses
    `task_offsets`. `task_end_offsets`, `tags`: fields that the broker's sticky assignor ignores. Source:
    `AssignmentMemberSpec`.
    """

    process_id: str
    active: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()
    task_offsets: Mapping[TaskId, int] = field(default_factory=dict)
    task_end_offsets: Mapping[TaskId, int] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlacementClient:
    """A process in the input of a task assignor. `capacity`: the number of stream threads of the process. `consumers`:
    the member id of each thread; empty if the member ids are unknown. `host`: the process's `application.server`.
    `reported_tasks`: for each consumer that reported state, the tasks whose state it reported. `active_owners`: the
    consumer that owns a partition of the task, by task. `members`: the members of a recorded streams group; empty for
    other groups.
    """

    process_id: ProcessId
    capacity: int
    lags: TaskLags
    consumers: tuple[str, ...] = ()
    previous_active: frozenset[TaskId] = frozenset()
    previous_standby: frozenset[TaskId] = frozenset()
    tags: Mapping[str, str] = field(default_factory=dict)
    rack: str | None = None
    host: HostInfo | None = None
    reported_tasks: Mapping[str, tuple[TaskId, ...]] = field(default_factory=dict)
    active_owners: Mapping[TaskId, str] = field(default_factory=dict)
    members: Mapping[str, MemberSpec] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlacementProblem:
    """The complete input of a placement.

    `tasks`, `stateful_tasks` and `clients` are in the iteration order of the leader's Java collections. The sticky and
    the fallback assignor break ties by the order of tasks and clients. HighAvailabilityTaskAssignor sorts tasks and
    clients. `stateful_tasks`: the tasks that have a changelog. `racks`: the racks of partitions, which only a
    rack-aware strategy uses; None if no racks are known. `store_names`: the names of each subtopology's stores,
    including stores without a changelog; None if the stores are unknown.
    """

    configs: AssignmentConfigs
    tasks: tuple[TaskId, ...]
    stateful_tasks: tuple[TaskId, ...]
    clients: Mapping[ProcessId, PlacementClient]
    racks: RackInformation | None = None
    store_names: Mapping[int, frozenset[str]] | None = None


@dataclass(frozen=True, slots=True)
class ClientPlacement:
    """The tasks of one client. `warm_ups`: the tasks of `standby` whose copies exist only until they have caught up.

    `active_order`, `standby_order`: the order in which Kafka's leader stores the tasks; None means sorted. If the tasks
    come from an assignor of the public interface, the leader stores the tasks in hash order.
    """

    active: frozenset[TaskId]
    standby: frozenset[TaskId]
    warm_ups: frozenset[TaskId] = frozenset()
    active_order: tuple[TaskId, ...] | None = None
    standby_order: tuple[TaskId, ...] | None = None

    def active_in_order(self) -> Sequence[TaskId]:
        return sorted(self.active) if self.active_order is None else self.active_order

    def standby_in_order(self) -> Sequence[TaskId]:
        return sorted(self.standby) if self.standby_order is None else self.standby_order


class AssignmentError(StrEnum):
    """The fault of a placement. Source: `TaskAssignor.AssignmentError` (KIP-924)."""

    NONE = "NONE"
    ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES = "ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES"
    INVALID_STANDBY_TASK = "INVALID_STANDBY_TASK"
    MISSING_PROCESS_ID = "MISSING_PROCESS_ID"
    UNKNOWN_PROCESS_ID = "UNKNOWN_PROCESS_ID"
    UNKNOWN_TASK_ID = "UNKNOWN_TASK_ID"

    @property
    def is_fatal(self) -> bool:
        """True if Kafka's leader fails immediately, because it cannot use a placement with this error at all. If an
        error is not fatal, the leader first computes the whole assignment, and then fails.
        """
        return self in (AssignmentError.UNKNOWN_PROCESS_ID, AssignmentError.UNKNOWN_TASK_ID)


@dataclass(frozen=True, slots=True)
class Placement:
    """The output of a task assignor. `clients`: the tasks of every client.

    `assignment_error`: the error that Kafka's own check found; None if Kafka's check was not made. Only the placement
    of an assignor of the public interface is checked. `followup_deadlines_ms`: the time (milliseconds since 1970) at
    which each process should request the next rebalance.
    """

    probing_rebalance_needed: bool
    clients: Mapping[ProcessId, ClientPlacement]
    assignment_error: AssignmentError | None = None
    followup_deadlines_ms: Mapping[ProcessId, int] = field(default_factory=dict)

    @property
    def is_refused(self) -> bool:
        return self.assignment_error not in (None, AssignmentError.NONE)


class TaskAssignor(Protocol):
    """A task assignor. `name`: the assignor's name in configs and recordings."""

    name: str

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        """Returns a placement in which every task is active exactly once. Appends the reasons to the log of decisions.
        Raises KafkaError.
        """
        ...


@runtime_checkable
class PublicInterfaceAssignor(TaskAssignor, Protocol):
    """An assignor of the public interface in the pipeline. The input of an assignor of the public interface contains
    the racks of all partitions. The lags in this input may be unknown.
    Source: `StreamsPartitionAssignor.assignTasksToClients`.
    """

    def on_assignment_computed(
        self, assignment: Mapping[str, bytes], subscription: Mapping[str, bytes], error: AssignmentError
    ) -> None:
        """Receives the assignment and the subscription of each member from the pipeline. The assignments are empty if
        `error` is fatal.
        """
        ...


_Fault = tuple[str, str]
"""The name of a fault, and the task or process concerned. Some faults have names that Kafka does not have."""

_FATAL = frozenset(error.value for error in AssignmentError if error.is_fatal)


def validate_placement(problem: PlacementProblem, placement: Placement, assignor: str = "the task assignor") -> None:
    """Raises StreamsError for the first fault. `assignor`: the assignor's name in the message."""
    if placement.assignment_error is not None:
        if placement.is_refused:
            raise refusal(placement.assignment_error, assignor)
        return
    fault = (
        _fault_of_tasks(problem, placement)
        or _fault_of_clients(problem, placement)
        or _fault_beyond_kafka(problem, placement)
    )
    if fault is not None:
        name, detail = fault
        raise refusal(name, assignor, detail)


def refusal(name: str, assignor: str, detail: str | None = None) -> StreamsError:
    """Returns the error that Kafka's leader would throw. `name`: the name of the fault. `detail`: the task or process
    concerned, if known.
    """
    severity = "a fatal error" if name in _FATAL else "an error"
    return StreamsError(f"Task assignment with {assignor} returned {severity}: {name}", detail)


def _fault_of_tasks(problem: PlacementProblem, placement: Placement) -> _Fault | None:
    tasks = frozenset(problem.tasks)
    all_are_stateful = len(problem.stateful_tasks) == len(problem.tasks)
    stateful = tasks if all_are_stateful else frozenset(problem.stateful_tasks)
    running: set[object] = set()
    for process, client in placement.clients.items():
        for copies in (client.active, client.standby):
            if not copies <= tasks:
                unknown = min(copies - tasks)
                return AssignmentError.UNKNOWN_TASK_ID, f"{unknown} on {process} is no task of this group"
        if not running.isdisjoint(client.active):
            twice = min(task for task in client.active if task in running)
            return AssignmentError.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES, f"{twice} on {process} and on another client"
        running |= client.active
    for process, client in placement.clients.items():
        if not client.standby <= stateful:
            stateless = min(client.standby - stateful)
            return AssignmentError.INVALID_STANDBY_TASK, f"{stateless} on {process} is stateless"
    return None


def _fault_of_clients(problem: PlacementProblem, placement: Placement) -> _Fault | None:
    if placement.clients.keys() == problem.clients.keys():
        return None
    missing = problem.clients.keys() - placement.clients.keys()
    if missing:
        return AssignmentError.MISSING_PROCESS_ID, f"{min(missing)} has no entry"
    unknown = min(placement.clients.keys() - problem.clients.keys())
    return AssignmentError.UNKNOWN_PROCESS_ID, f"{unknown} is no client of this group"


def _fault_beyond_kafka(problem: PlacementProblem, placement: Placement) -> _Fault | None:
    running = [client.active for client in placement.clients.values()]
    # earlier checks ensure that all tasks are known and run at most once
    if sum(map(len, running)) < len(problem.tasks):
        without_active = frozenset(problem.tasks).difference(*running)
        return "TASK_WITHOUT_ACTIVE", f"nobody runs {min(without_active)}"
    for process, client in placement.clients.items():
        if not client.active.isdisjoint(client.standby):
            twice = min(client.active & client.standby)
            return "TWO_COPIES_ON_ONE_CLIENT", f"{twice} is both active and standby on {process}"
        if not client.warm_ups <= client.standby:
            stray = min(client.warm_ups - client.standby)
            return AssignmentError.INVALID_STANDBY_TASK, f"{stray} warms up on {process}, but is no standby there"
    return None
