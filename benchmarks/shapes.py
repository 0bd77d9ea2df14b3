"""The shapes of groups on which our leader and Kafka's are timed, as groups made of bytes.

A shape is one topic with one store: `tasks` partitions, `clients` processes of `threads` members each. Four rebalances
are timed: in the first nobody holds anything, in the second every member reports what the first one gave it, in the
third one more process has joined with nothing, so that tasks have to move and warm up, or one process has gone.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from assignor.configs import AssignmentConfigs
from assignor.pipeline.snapshot import Member, RebalanceSnapshot
from assignor.protocol.assignment_info import decode_assignment_info
from assignor.protocol.consumer_protocol import Subscription, decode_assignment, encode_subscription
from assignor.protocol.subscription_info import SubscriptionInfo, encode_subscription_info
from assignor.protocol.versions import LATEST_SUPPORTED_VERSION
from assignor.topology.cluster import Broker, Cluster, TopicMetadata
from assignor.topology.group_topology import GroupTopology, Subtopology, SubtopologyStore
from assignor.types import LATEST_OFFSET, ProcessId, TaskId, TopicPartition

TOPIC = "events"
CHANGELOG = "bench-store-changelog"
RACKS = ("rack-0", "rack-1", "rack-2")
KAFKAS = "HighAvailabilityTaskAssignor"
NO_RACKS = "none"
END_OFFSET = 100_000  # far beyond acceptable.recovery.lag: who reports nothing is not caught up


@dataclass(frozen=True, slots=True)
class Shape:
    """`standbys`: of each task; `threads`: of each client."""

    tasks: int
    clients: int
    standbys: int
    threads: int

    def __str__(self) -> str:
        return f"{self.tasks:,} tasks x {self.clients:,} clients, {self.threads:,} threads, {self.standbys} standbys"


SHAPES = (
    Shape(6_000, 2, 1, 1),
    Shape(1_000, 1_000, 1, 1),
    Shape(1_000, 100, 50, 1),
    Shape(1_000, 10, 1, 1_000),
    Shape(1_000, 10, 1, 8),
    Shape(5_000, 50, 1, 8),
    Shape(10_000, 100, 1, 8),
    Shape(20_000, 200, 1, 8),
    Shape(50_000, 500, 1, 8),
)


@dataclass(frozen=True, slots=True)
class Placing:
    """`assignor`: as configs name it. `strategy`: of `rack.aware.assignment.strategy`; with "none" nobody has a rack,
    with any other the clients are spread over three, and each partition has its replicas on two of them.
    """

    assignor: str = KAFKAS
    strategy: str = NO_RACKS

    @property
    def has_racks(self) -> bool:
        return self.strategy != NO_RACKS


PLAIN = Placing()


def first_rebalance(shape: Shape, placing: Placing = PLAIN) -> RebalanceSnapshot:
    """Nobody holds anything yet, and the changelog is still empty on every member."""
    return _snapshot(shape, shape.clients, {}, placing)


def second_rebalance(shape: Shape, assignments: Mapping[str, bytes], placing: Placing = PLAIN) -> RebalanceSnapshot:
    """`assignments`: what the first rebalance sent. Actives run, standbys have caught up."""
    return _snapshot(shape, shape.clients, assignments, placing)


def client_added_rebalance(
    shape: Shape, assignments: Mapping[str, bytes], placing: Placing = PLAIN
) -> RebalanceSnapshot:
    """The second rebalance with one process more, which holds nothing."""
    return _snapshot(shape, shape.clients + 1, assignments, placing)


def client_removed_rebalance(
    shape: Shape, assignments: Mapping[str, bytes], placing: Placing = PLAIN
) -> RebalanceSnapshot:
    """The second rebalance without the last process: nobody reports its active tasks as running."""
    return _snapshot(shape, shape.clients - 1, assignments, placing)


def _snapshot(shape: Shape, clients: int, assignments: Mapping[str, bytes], placing: Placing) -> RebalanceSnapshot:
    topology = GroupTopology((Subtopology(0, (TOPIC,), stores=(SubtopologyStore("store", CHANGELOG),)),))
    topic = TopicMetadata(shape.tasks, _replicas(shape.tasks) if placing.has_racks else None)
    brokers = [Broker(number + 1, rack) for number, rack in enumerate(RACKS)] if placing.has_racks else [Broker(1)]
    return RebalanceSnapshot(
        assignor=placing.assignor,
        configs=AssignmentConfigs(num_standby_replicas=shape.standbys, rack_aware_assignment_strategy=placing.strategy),
        application_id="bench",
        topology=topology,
        cluster=Cluster(tuple(brokers), {TOPIC: topic}),
        existing_internal_topics={CHANGELOG: topic},
        changelog_end_offsets={CHANGELOG: (END_OFFSET,) * shape.tasks},
        members={
            member_id: Member(_subscription(client, assignments.get(member_id), placing))
            for client in range(clients)
            for member_id in (f"client-{client:05d}-thread-{thread:05d}" for thread in range(shape.threads))
        },
    )


def _replicas(partitions: int) -> tuple[tuple[int, ...], ...]:
    """Two of the three brokers, in turns."""
    count = len(RACKS)
    return tuple([(number % count + 1, (number + 1) % count + 1) for number in range(partitions)])


def _subscription(client: int, assignment: bytes | None, placing: Placing) -> bytes:
    owned: tuple[TopicPartition, ...] = ()
    offset_sums: dict[TaskId, int] = {}
    if assignment is not None:
        decoded = decode_assignment(assignment)
        info = decode_assignment_info(decoded.user_data or b"")
        owned = decoded.partitions
        offset_sums = dict.fromkeys(info.standby_tasks, END_OFFSET)
        offset_sums.update((task, LATEST_OFFSET) for task in info.active_tasks)
    info_bytes = encode_subscription_info(
        SubscriptionInfo(
            version=LATEST_SUPPORTED_VERSION,
            latest_supported_version=LATEST_SUPPORTED_VERSION,
            process_id=ProcessId(0, client),
            user_end_point=None,
            task_offset_sums=offset_sums,
            unique_field=1,
            error_code=0,
            client_tags={},
        )
    )
    rack = RACKS[client % len(RACKS)] if placing.has_racks else None
    return encode_subscription(
        Subscription(topics=(TOPIC,), user_data=info_bytes, owned_partitions=owned, generation_id=1, rack=rack)
    )
