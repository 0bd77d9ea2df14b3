"""Groups that live: instances join, leave and restart, standbys catch up, and every rebalance is recorded as it comes.

All goes through bytes. What a member reports in a rebalance is what the rebalance before gave it, so that a history has
the shape of a real one: a first rebalance, follow-up rebalances while tasks change hands, probing rebalances while
copies warm up, a stable rebalance, and then the next instance. Every choice is drawn from one seed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from assignor.configs import AssignmentConfigs
from assignor.pipeline import assign
from assignor.pipeline.snapshot import Member, RebalanceResult, RebalanceSnapshot
from assignor.protocol.assignment_info import decode_assignment_info
from assignor.protocol.consumer_protocol import Subscription, decode_assignment, encode_subscription
from assignor.protocol.subscription_info import SubscriptionInfo, encode_subscription_info
from assignor.protocol.versions import LATEST_SUPPORTED_VERSION
from assignor.recording import rebalance_document
from assignor.topology.cluster import Broker, Cluster, TopicMetadata
from assignor.topology.group_topology import (
    ChangelogConfig,
    GroupTopology,
    RepartitionTopic,
    Subtopology,
    SubtopologyStore,
)
from assignor.types import LATEST_OFFSET, ProcessId, TaskId, TopicPartition

FIRST_NOW_MS = 1_767_225_600_000
FEWEST_INSTANCES, MOST_INSTANCES = 3, 8
FIRST_INSTANCES = (3, 3, 3, 3, 3, 4, 5)
THREADS = (*(1,) * 26, 2, 2, 3, 4)
SUBTOPOLOGIES = (1, 1, 1, 2, 3)
FEWEST_TASKS, MOST_TASKS, USUAL_TASKS = 20, 60, 24
REBALANCES_OF_A_GROUP = (15, 60)
FOLLOW_UP_MS, PROBING_MS = 2_000, 60_000
LONGEST_QUIET_MS = 86_400_000
RESTORED_IN_PROBING_INTERVAL = (50_000, 500_000)


@dataclass(slots=True)
class _Thread:
    """One member. `tasks`: what it runs, with partitions; `standby`: what it restores."""

    member_id: str
    client_id: str
    tasks: dict[TaskId, list[TopicPartition]] = field(default_factory=dict)
    standby: tuple[TaskId, ...] = ()


@dataclass(slots=True)
class _Instance:
    """One process. `restored`: how many records of each stateful task are on its disk."""

    process_id: ProcessId
    name: str
    threads: list[_Thread]
    end_point: str | None
    restored: dict[TaskId, int] = field(default_factory=dict)


class GeneratedGroup:
    """`rebalances()` yields the recorded rebalances (documents of rebalance/1) of one group, in order."""

    def __init__(self, name: str, seed: str) -> None:
        self.name = name
        self._random = Random(seed)
        self._topology, self._cluster = _topology(name, self._random)
        self._tasks = _stateful_tasks(self._topology, self._cluster)
        self._ends = {task: int(2 ** self._random.uniform(10, 20)) for task in self._tasks}
        self._configs = AssignmentConfigs(
            num_standby_replicas=self._random.choice((0, 1)),
            max_warmup_replicas=self._random.choice((2, 2, 2, 4)),
            probing_rebalance_interval_ms=PROBING_MS,
        )
        self._has_end_points = self._random.random() < 0.05
        self._leader_in_group = self._random.random() < 0.5
        self._internal_topics: dict[str, TopicMetadata] = {}
        self._instances: list[_Instance] = []
        self._started = 0
        self._now_ms = FIRST_NOW_MS + self._random.randrange(LONGEST_QUIET_MS)
        for _ in range(self._random.choice(FIRST_INSTANCES)):
            self._start_instance()

    def rebalances(self) -> Iterator[dict[str, object]]:
        for generation in range(1, self._random.randint(*REBALANCES_OF_A_GROUP) + 1):
            snapshot = self._snapshot()
            result = assign(snapshot, self._now_ms)
            yield rebalance_document(
                id=f"{self.name}.{generation}",
                group_id=self.name,
                generation_id=generation,
                now_ms=self._now_ms,
                source="generated",
                snapshot=snapshot,
                result=result,
            )
            self._receive(result)
            self._until_next_rebalance(result)

    def _until_next_rebalance(self, result: RebalanceResult) -> None:
        """A follow-up rebalance comes at once, a probing rebalance after its interval; a stable group waits for a
        change.
        """
        draw = self._random
        if result.followup_rebalance:
            self._now_ms += draw.randint(100, FOLLOW_UP_MS)
        elif result.probing_rebalance_at_ms is not None and draw.random() < 0.9:
            self._now_ms = result.probing_rebalance_at_ms
            self._restore(draw.randint(*RESTORED_IN_PROBING_INTERVAL))
        else:
            self._now_ms += draw.randint(PROBING_MS, LONGEST_QUIET_MS)
            self._ends = {task: end + draw.randrange(2_000) for task, end in self._ends.items()}
            self._restore(max(self._ends.values()))
            self._clean_up()
            self._change_instances()

    def _change_instances(self) -> None:
        draw = self._random
        change, running = draw.random(), len(self._instances)
        if change < 0.15:
            return  # a member joined again, and nothing is new
        if change < 0.4 and running < MOST_INSTANCES:
            self._start_instance()
        elif change < 0.85 and running > FEWEST_INSTANCES:
            del self._instances[draw.randrange(running)]
        else:
            self._restart(draw.choice(self._instances))

    def _clean_up(self) -> None:
        """What an instance has not open is deleted from its disk after a while."""
        for instance in self._instances:
            opened = {task for thread in instance.threads for task in (*thread.tasks, *thread.standby)}
            instance.restored = {task: at for task, at in instance.restored.items() if task in opened}

    def _start_instance(self) -> None:
        self._started += 1
        name = f"{self.name}-{self._started}"
        threads = [self._thread(name, number) for number in range(1, self._random.choice(THREADS) + 1)]
        process_id = ProcessId(self._random.getrandbits(64) - 2**63, self._random.getrandbits(64) - 2**63)
        end_point = f"10.0.0.{self._started}:7070" if self._has_end_points else None
        self._instances.append(_Instance(process_id, name, threads, end_point))

    def _restart(self, instance: _Instance) -> None:
        """The same process id and state on disk, new members that own nothing."""
        instance.threads = [self._thread(instance.name, number) for number in range(1, len(instance.threads) + 1)]

    def _thread(self, instance: str, number: int) -> _Thread:
        client_id = f"{instance}-StreamThread-{number}-consumer"
        suffix = str(ProcessId(self._random.getrandbits(63), self._random.getrandbits(63)))
        return _Thread(f"{client_id}-{suffix}", client_id)

    def _restore(self, records: int) -> None:
        """Let this many records pass before the next rebalance: actives stay at the end, standbys come nearer to it."""
        for instance in self._instances:
            for thread in instance.threads:
                for task in (*thread.tasks, *thread.standby):
                    if task in self._ends:
                        instance.restored[task] = min(instance.restored.get(task, 0) + records, self._ends[task])

    def _receive(self, result: RebalanceResult) -> None:
        self._internal_topics = {
            name: self._internal_topics.get(name) or TopicMetadata(partitions)
            for name, partitions in result.internal_topics.items()
        }
        for instance in self._instances:
            for thread in instance.threads:
                assignment = decode_assignment(result.assignments[thread.member_id])
                info = decode_assignment_info(assignment.user_data or b"")
                thread.tasks = {}
                for task, partition in zip(info.active_tasks, assignment.partitions, strict=True):
                    thread.tasks.setdefault(task, []).append(partition)
                thread.standby = tuple(info.standby_tasks)
                opened = {task: self._ends[task] for task in thread.tasks if task in self._ends}
                instance.restored.update(opened)

    def _snapshot(self) -> RebalanceSnapshot:
        ends = {
            name: tuple(self._ends[TaskId(subtopology.id, number)] for number in range(topic.partitions))
            for subtopology in self._topology.subtopologies
            for store in subtopology.stores
            if (name := store.changelog_topic) is not None and (topic := self._internal_topics.get(name)) is not None
        }
        return RebalanceSnapshot(
            assignor="HighAvailabilityTaskAssignor",
            configs=self._configs,
            application_id=self.name,
            topology=self._topology,
            cluster=self._cluster,
            members={
                thread.member_id: Member(_subscription(self._topology, instance, thread, sums), thread.client_id)
                for instance in self._instances
                for thread, sums in _offset_sums(instance)
            },
            existing_internal_topics=self._internal_topics,
            changelog_end_offsets=ends,
            leader_process_id=self._instances[0].process_id if self._leader_in_group else None,
        )


def _offset_sums(instance: _Instance) -> Iterator[tuple[_Thread, dict[TaskId, int]]]:
    """What each member reports: its open tasks, and the first one also the closed ones on the instance's disk."""
    opened = {task for thread in instance.threads for task in (*thread.tasks, *thread.standby)}
    for number, thread in enumerate(instance.threads):
        sums = {task: LATEST_OFFSET for task in thread.tasks if task in instance.restored}
        sums |= {task: instance.restored.get(task, 0) for task in thread.standby}
        if number == 0:
            sums |= {task: end for task, end in instance.restored.items() if task not in opened}
        yield thread, sums


def _subscription(topology: GroupTopology, instance: _Instance, thread: _Thread, sums: dict[TaskId, int]) -> bytes:
    info = SubscriptionInfo(
        version=LATEST_SUPPORTED_VERSION,
        latest_supported_version=LATEST_SUPPORTED_VERSION,
        process_id=instance.process_id,
        user_end_point=instance.end_point,
        task_offset_sums=sums,
    )
    owned = tuple(partition for partitions in thread.tasks.values() for partition in partitions)
    topics = tuple(topic for subtopology in topology.subtopologies for topic in subtopology.source_topics)
    return encode_subscription(Subscription(topics, encode_subscription_info(info), owned))


def _topology(name: str, draw: Random) -> tuple[GroupTopology, Cluster]:
    """Some subtopologies read what the one before them has repartitioned; the first one always has a store."""
    count = draw.choice(SUBTOPOLOGIES)
    tasks = int(draw.triangular(FEWEST_TASKS, MOST_TASKS, USUAL_TASKS))
    topics: dict[str, TopicMetadata] = {}
    subtopologies: list[Subtopology] = []
    partitions = tasks // count
    for number in range(count):
        store = f"{name}-s{number}"
        stores = (SubtopologyStore(store, f"{store}-changelog", changelog=ChangelogConfig()),)
        has_stores = number == 0 or draw.random() < 0.7
        topic = f"{name}-t{number}"
        repartition = f"{name}-s{number}-repartition"
        read_repartition: tuple[RepartitionTopic, ...] = ()
        if number > 0 and draw.random() < 0.4:
            subtopologies[-1] = _writing(subtopologies[-1], repartition)
            reads, read_repartition = (repartition,), (RepartitionTopic(repartition),)
        else:
            topics[topic] = TopicMetadata(partitions)
            reads = (topic,)
        subtopologies.append(Subtopology(number, reads, read_repartition, stores=stores if has_stores else ()))
    return GroupTopology(tuple(subtopologies)), Cluster((Broker(1), Broker(2), Broker(3)), topics)


def _writing(subtopology: Subtopology, topic: str) -> Subtopology:
    return Subtopology(
        subtopology.id,
        subtopology.source_topics,
        subtopology.repartition_source_topics,
        sink_topics=(topic,),
        repartition_sink_topics=(topic,),
        stores=subtopology.stores,
    )


def _stateful_tasks(topology: GroupTopology, cluster: Cluster) -> list[TaskId]:
    """Every topic of a generated group has the same number of partitions."""
    partitions = next(iter(cluster.topics.values())).partitions
    stateful = [subtopology.id for subtopology in topology.subtopologies if subtopology.stores]
    return [TaskId(subtopology, number) for subtopology in stateful for number in range(partitions)]
