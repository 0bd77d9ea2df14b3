"""A group as its members see it: they own partitions, keep state, give up what is taken away, and join again.

All goes through bytes: `subscriptions()` is what members would send, `receive()` what they do with the answer. The
invariants that hold in every round are asserted while receiving; the tests add what holds in the end.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from assignor.configs import AssignmentConfigs
from assignor.pipeline import assign
from assignor.pipeline.snapshot import Member, RebalanceResult, RebalanceSnapshot
from assignor.protocol.assignment_info import AssignmentInfo, decode_assignment_info
from assignor.protocol.consumer_protocol import Subscription, decode_assignment, encode_subscription
from assignor.protocol.subscription_info import SubscriptionInfo, encode_subscription_info
from assignor.topology.cluster import Broker, Cluster, TopicMetadata
from assignor.topology.group_topology import GroupTopology, Subtopology, SubtopologyStore
from assignor.types import JAVA_LONG_MAX, LATEST_OFFSET, ProcessId, TaskId, TopicPartition
from tests.known import known

NOW_MS = 1_700_000_000_000
FOLLOW_UPS_AT_MOST = 10
LOG_END = 100_000


def process_id(number: int) -> ProcessId:
    return ProcessId(number, -number)


def topology_of(stateful: Sequence[int], stateless: Sequence[int] = ()) -> tuple[GroupTopology, Cluster]:
    """One subtopology for each count of partitions, the stateful ones first, each with one topic and one store."""
    subtopologies, topics = [], {}
    for number, partitions in enumerate([*stateful, *stateless]):
        topics[f"topic-{number}"] = TopicMetadata(partitions)
        stores = (
            (SubtopologyStore(f"store-{number}", f"app-store-{number}-changelog"),) if number < len(stateful) else ()
        )
        subtopologies.append(Subtopology(number, (f"topic-{number}",), stores=stores))
    return GroupTopology(tuple(subtopologies)), Cluster((Broker(1),), topics)


@dataclass(slots=True)
class Thread:
    """One member. `owned`: partitions by task, the active tasks that it runs."""

    owned: dict[TaskId, frozenset[TopicPartition]] = field(default_factory=dict)
    standby: frozenset[TaskId] = frozenset()

    def owned_partitions(self) -> frozenset[TopicPartition]:
        return frozenset(partition for partitions in self.owned.values() for partition in partitions)


@dataclass(slots=True)
class Process:
    """One instance. `restored`: how far the state on its disk is, in records."""

    threads: dict[str, Thread]
    tags: Mapping[str, str] = field(default_factory=dict)
    endpoint: str | None = None
    restored: dict[TaskId, int] = field(default_factory=dict)

    def running_sums(self, thread: Thread) -> dict[TaskId, int]:
        """Offset sums of the stateful tasks that a thread has open."""
        active = {task: LATEST_OFFSET for task in thread.owned if task in self.restored}
        return active | {task: self.restored[task] for task in thread.standby}


@dataclass(slots=True)
class SimulatedGroup:
    topology: GroupTopology
    cluster: Cluster
    configs: AssignmentConfigs = field(default_factory=AssignmentConfigs)
    assignor: str = "HighAvailabilityTaskAssignor"
    processes: dict[ProcessId, Process] = field(default_factory=dict)
    leader_in_group: bool = True

    def add_process(self, number: int, threads: int = 1, tags: Mapping[str, str] | None = None) -> ProcessId:
        added = process_id(number)
        names = [f"app-{number}-StreamThread-{thread}-consumer" for thread in range(1, threads + 1)]
        self.processes[added] = Process({name: Thread() for name in names}, tags or {}, f"host-{number}:9092")
        return added

    def remove_process(self, removed: ProcessId) -> None:
        """It dies: what it owned is owned by nobody."""
        del self.processes[removed]

    @property
    def stateful_tasks(self) -> list[TaskId]:
        with_store = [subtopology for subtopology in self.topology.subtopologies if subtopology.stores]
        return [TaskId(each.id, number) for each in with_store for number in range(self._partitions(each))]

    @property
    def tasks(self) -> list[TaskId]:
        return [
            TaskId(each.id, number) for each in self.topology.subtopologies for number in range(self._partitions(each))
        ]

    def _partitions(self, subtopology: Subtopology) -> int:
        return max(self.cluster.topics[topic].partitions for topic in subtopology.source_topics)

    def subscriptions(self) -> dict[str, Member]:
        members: dict[str, Member] = {}
        for owner, process in self.processes.items():
            sums = {name: process.running_sums(thread) for name, thread in process.threads.items()}
            reported = {task for of_thread in sums.values() for task in of_thread}
            first = next(iter(process.threads))
            sums[first] |= {task: offset for task, offset in process.restored.items() if task not in reported}
            members |= {name: _member(owner, process, thread, sums[name]) for name, thread in process.threads.items()}
        return members

    def snapshot(self) -> RebalanceSnapshot:
        changelogs = {
            store.changelog_topic: self._partitions(subtopology)
            for subtopology in self.topology.subtopologies
            for store in subtopology.stores
            if store.changelog_topic is not None
        }
        return RebalanceSnapshot(
            assignor=self.assignor,
            configs=self.configs,
            application_id="app",
            topology=self.topology,
            cluster=self.cluster,
            members=self.subscriptions(),
            existing_internal_topics={name: TopicMetadata(count) for name, count in changelogs.items()},
            changelog_end_offsets={name: (LOG_END,) * count for name, count in changelogs.items()},
            leader_process_id=next(iter(self.processes)) if self.leader_in_group else None,
        )

    def rebalance(self) -> RebalanceResult:
        """One round: everybody joins, the leader decides, everybody does as told. Asserts what must always hold."""
        snapshot = self.snapshot()
        result = assign(snapshot, NOW_MS)
        assert result.error is None
        self.receive(result.assignments)
        return result

    def receive(self, assignments: Mapping[str, bytes]) -> None:
        owner_before = {partition: name for name, thread in self._threads() for partition in thread.owned_partitions()}
        for process in self.processes.values():
            copies: list[TaskId] = []
            for name, thread in process.threads.items():
                partitions, info = decode(assignments[name])
                for partition in partitions:
                    assert owner_before.get(partition, name) == name, f"{partition} handed out before it was revoked"
                thread.owned = _by_task(partitions, info)
                thread.standby = frozenset(info.standby_tasks)
                copies += [*thread.owned, *thread.standby]
            assert len(copies) == len(set(copies)), f"two copies in one process: {sorted(copies)}"
        owned = [partition for _, thread in self._threads() for partition in thread.owned_partitions()]
        assert len(owned) == len(set(owned)), "a partition is owned by two members at once"
        self._open_state()

    def _open_state(self) -> None:
        """An active task restores before it runs; a standby begins with what is on disk."""
        stateful = set(self.stateful_tasks)
        for process in self.processes.values():
            for thread in process.threads.values():
                process.restored.update({task: LOG_END for task in thread.owned if task in stateful})
                process.restored.update({task: process.restored.get(task, 0) for task in thread.standby})

    def restore_standbys(self) -> None:
        """Time passes until every standby and warm-up has caught up."""
        for process in self.processes.values():
            for thread in process.threads.values():
                process.restored.update(dict.fromkeys(thread.standby, LOG_END))

    def rebalance_until_stable(self, at_most: int) -> int:
        """Follow-up and probing rounds until neither is asked for. Returns how many probing rounds it took."""
        for probing_rounds in range(at_most):
            result = self._follow_ups()
            if result.probing_rebalance_at_ms is None:
                return probing_rounds
            self.restore_standbys()
        raise AssertionError(f"not stable after {at_most} probing rounds")

    def _follow_ups(self) -> RebalanceResult:
        """One round and the follow-ups it asks for: a task that was given up is there to be handed out in the next."""
        for _ in range(FOLLOW_UPS_AT_MOST):
            result = self.rebalance()
            if not result.followup_rebalance:
                return result
        raise AssertionError(f"still handing tasks over after {FOLLOW_UPS_AT_MOST} follow-up rounds")

    def owners(self) -> dict[TaskId, str]:
        """The member that runs each task. Asserts that none runs twice."""
        owners: dict[TaskId, str] = {}
        for name, thread in self._threads():
            for task in thread.owned:
                assert task not in owners, f"{task} runs on {owners[task]} and {name}"
                owners[task] = name
        return owners

    def standbys(self) -> dict[TaskId, list[ProcessId]]:
        standbys: dict[TaskId, list[ProcessId]] = {}
        for owner, process in self.processes.items():
            for thread in process.threads.values():
                for task in thread.standby:
                    standbys.setdefault(task, []).append(owner)
        return standbys

    def _threads(self) -> Iterable[tuple[str, Thread]]:
        return ((name, thread) for process in self.processes.values() for name, thread in process.threads.items())


def decode(assignment: bytes) -> tuple[tuple[TopicPartition, ...], AssignmentInfo]:
    decoded = decode_assignment(assignment)
    return decoded.partitions, decode_assignment_info(known(decoded.user_data))


def next_rebalance(assignment: bytes) -> int | None:
    """In milliseconds, None for never."""
    at_ms = decode(assignment)[1].next_rebalance_ms
    return None if at_ms == JAVA_LONG_MAX else at_ms


def member(
    process: ProcessId,
    *,
    owned: Iterable[TopicPartition] = (),
    offset_sums: Mapping[TaskId, int] | None = None,
    endpoint: str | None = None,
    tags: Mapping[str, str] | None = None,
    version: int = 11,
    latest_supported_version: int = 11,
    error_code: int = 0,
    rack: str | None = None,
) -> Member:
    """One member's subscription."""
    info = SubscriptionInfo(
        version=version,
        latest_supported_version=latest_supported_version,
        process_id=process,
        user_end_point=endpoint,
        task_offset_sums=offset_sums or {},
        error_code=error_code,
        client_tags=tags or {},
    )
    user_data = encode_subscription_info(info)
    return Member(encode_subscription(Subscription(("topic-0",), user_data, tuple(owned), None, rack)))


def _member(owner: ProcessId, process: Process, thread: Thread, offset_sums: Mapping[TaskId, int]) -> Member:
    return member(
        owner,
        owned=sorted(thread.owned_partitions()),
        offset_sums=offset_sums,
        endpoint=process.endpoint,
        tags=process.tags,
    )


def _by_task(partitions: Sequence[TopicPartition], info: AssignmentInfo) -> dict[TaskId, frozenset[TopicPartition]]:
    by_task: dict[TaskId, set[TopicPartition]] = {}
    for partition, task in zip(partitions, info.active_tasks, strict=True):
        by_task.setdefault(task, set()).add(partition)
    return {task: frozenset(owned) for task, owned in by_task.items()}
