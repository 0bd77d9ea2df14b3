"""Subscriptions and assignments for tests of the group protocol: real bytes from a few words."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from assignor.errors import KafkaError
from assignor.pipeline.snapshot import RebalanceResult
from assignor.protocol.assignment_info import AssignmentInfo, decode_assignment_info, encode_assignment_info
from assignor.protocol.assignment_packing import share
from assignor.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from assignor.protocol.subscription_info import SubscriptionInfo, encode_subscription_info
from assignor.task_assignors.base import Placement
from assignor.types import LATEST_OFFSET, AssignorErrorCode, ProcessId, TaskId, TopicPartition
from coordinator_api.group.events import Join

SOURCE_TOPIC = "orders"


SESSION_MS = 10_000


@dataclass(frozen=True, slots=True)
class MemberState:
    """What a member says of itself. `running`: its active tasks. `on_disk`: offset sums of the state that it has."""

    process: str
    running: tuple[TaskId, ...] = ()
    on_disk: Mapping[TaskId, int] = field(default_factory=dict)
    unique: int = 0
    generation: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


def join(name: str, member_id: str | None = None, **state: Any) -> Join:
    """The join of a member of this name; with a member id a rejoin. `state`: of its `MemberState`."""
    return Join(subscription(MemberState(name, **state)), SESSION_MS, 60_000, name, member_id)


def process_named(name: str) -> ProcessId:
    return ProcessId.from_bytes(hashlib.sha256(name.encode()).digest()[:16])


def tasks(text: str) -> tuple[TaskId, ...]:
    """`"0_0,0_1"`; `""` and `-` are none."""
    return () if text in ("", "-") else tuple(TaskId.parse(part) for part in text.split(","))


def partition_of(task: TaskId) -> TopicPartition:
    return TopicPartition(SOURCE_TOPIC, task.partition)


def subscription(state: MemberState) -> bytes:
    """Bytes of ConsumerProtocolSubscription for a topology with one source topic."""
    sums = {**state.on_disk, **dict.fromkeys(state.running, LATEST_OFFSET)}
    info = SubscriptionInfo(
        11,
        process_id=process_named(state.process),
        task_offset_sums=sums,
        unique_field=state.unique,
        client_tags=state.tags,
    )
    owned = tuple(partition_of(task) for task in state.running)
    return encode_subscription(Subscription((SOURCE_TOPIC,), encode_subscription_info(info), owned, state.generation))


def assignment(active: Iterable[TaskId], standby: Iterable[TaskId] = ()) -> bytes:
    """Bytes of ConsumerProtocolAssignment."""
    active = tuple(active)
    info = AssignmentInfo(11, active_tasks=active, standby_tasks={task: (partition_of(task),) for task in standby})
    return encode_assignment(Assignment(tuple(partition_of(task) for task in active), encode_assignment_info(info)))


def decided(
    assignments: Mapping[str, bytes],
    *,
    followup_rebalance: bool = False,
    probing_rebalance_at_ms: int | None = None,
    placement: Placement | None = None,
    error: KafkaError | None = None,
    error_code: AssignorErrorCode = AssignorErrorCode.NONE,
) -> RebalanceResult:
    """A result of these assignments, cut into their parts as those of the pipeline are."""
    return RebalanceResult(
        share(assignments),
        followup_rebalance=followup_rebalance,
        probing_rebalance_at_ms=probing_rebalance_at_ms,
        placement=placement,
        error=error,
        error_code=error_code,
    )


def assigned(data: bytes) -> AssignmentInfo:
    """What is in the bytes a member was handed."""
    user_data = decode_assignment(data).user_data
    assert user_data is not None
    return decode_assignment_info(user_data)
