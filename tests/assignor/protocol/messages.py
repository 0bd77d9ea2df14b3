"""Random messages of every version, and what of a message its version carries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import strategies as st

from assignor.protocol.assignment_info import AssignmentInfo, encode_assignment_info
from assignor.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from assignor.protocol.subscription_info import SubscriptionInfo, encode_subscription_info
from assignor.types import JAVA_LONG_MAX, LATEST_OFFSET, UNKNOWN_OFFSET_SUM, HostInfo, ProcessId, TaskId, TopicPartition

INT8 = st.integers(-(2**7), 2**7 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
NAME = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)

TOPIC_PARTITIONS = st.builds(TopicPartition, TEXT, INT32)
PARTITION_SETS = st.lists(TOPIC_PARTITIONS, max_size=5, unique=True).map(tuple)
PROCESS_IDS = st.builds(ProcessId, INT64, INT64)
HOST_MAPS = st.dictionaries(st.builds(HostInfo, TEXT, INT32), PARTITION_SETS, max_size=4)


def task_ids(version: int) -> st.SearchStrategy[TaskId]:
    topology_names = st.none() | NAME if version >= 10 else st.none()
    return st.builds(TaskId, INT32, INT32, topology_names)


@st.composite
def subscription_infos(draw: st.DrawFn) -> SubscriptionInfo:
    version = draw(st.integers(1, 11))
    return SubscriptionInfo(
        version=version,
        latest_supported_version=draw(st.integers(version, 2**31 - 1)),
        process_id=draw(PROCESS_IDS),
        user_end_point=draw(st.none() | NAME),
        task_offset_sums=draw(st.dictionaries(task_ids(version), INT64 | st.integers(-3, 0), max_size=8)),
        unique_field=draw(INT8),
        error_code=draw(INT32),
        client_tags=draw(st.dictionaries(TEXT, TEXT, max_size=4)),
    )


def subscription_info_as_carried(info: SubscriptionInfo) -> SubscriptionInfo:
    """`info` without the fields that its version leaves out."""
    version = info.version
    return replace(
        info,
        latest_supported_version=info.latest_supported_version if version >= 3 else -1,
        user_end_point=info.user_end_point if version >= 2 else None,
        task_offset_sums=info.task_offset_sums if version >= 7 else _as_task_sets(info.task_offset_sums),
        unique_field=info.unique_field if version >= 8 else 0,
        error_code=info.error_code if version >= 9 else 0,
        client_tags=info.client_tags if version >= 11 else {},
    )


def _as_task_sets(offset_sums: Mapping[TaskId, int]) -> dict[TaskId, int]:
    return {
        task: LATEST_OFFSET if offset_sum == LATEST_OFFSET else UNKNOWN_OFFSET_SUM
        for task, offset_sum in offset_sums.items()
    }


@st.composite
def assignment_infos(draw: st.DrawFn) -> AssignmentInfo:
    version = draw(st.integers(1, 11))
    return AssignmentInfo(
        version=version,
        commonly_supported_version=draw(INT32),
        active_tasks=tuple(draw(st.lists(task_ids(version), max_size=6))),
        standby_tasks=draw(st.dictionaries(task_ids(version), PARTITION_SETS, max_size=4)),
        partitions_by_host=draw(HOST_MAPS),
        standby_partitions_by_host=draw(HOST_MAPS),
        err_code=draw(INT32),
        next_rebalance_ms=draw(INT64),
    )


def assignment_info_as_carried(info: AssignmentInfo) -> AssignmentInfo:
    """`info` without the fields that its version leaves out."""
    version = info.version
    return replace(
        info,
        commonly_supported_version=info.commonly_supported_version if version >= 3 else -1,
        partitions_by_host=info.partitions_by_host if version >= 2 else {},
        standby_partitions_by_host=info.standby_partitions_by_host if version >= 6 else {},
        err_code=info.err_code if version >= 4 else 0,
        next_rebalance_ms=info.next_rebalance_ms if version >= 7 else JAVA_LONG_MAX,
    )


USER_DATA = st.none() | st.binary(max_size=20)
CONSUMER_VERSIONS = st.integers(0, 3)
SUBSCRIPTIONS = st.builds(
    Subscription,
    topics=st.lists(TEXT, max_size=4).map(tuple),
    user_data=USER_DATA,
    owned_partitions=st.lists(TOPIC_PARTITIONS, max_size=6).map(tuple),
    generation_id=st.none() | st.integers(0, 2**31 - 1),
    rack=st.none() | NAME,
)
ASSIGNMENTS = st.builds(Assignment, partitions=st.lists(TOPIC_PARTITIONS, max_size=6).map(tuple), user_data=USER_DATA)

ENCODED_BY_KIND: Mapping[str, st.SearchStrategy[bytes]] = {
    "subscription": st.builds(encode_subscription, SUBSCRIPTIONS, CONSUMER_VERSIONS),
    "assignment": st.builds(encode_assignment, ASSIGNMENTS, CONSUMER_VERSIONS),
    "subscription-info": st.builds(encode_subscription_info, subscription_infos()),
    "assignment-info": st.builds(encode_assignment_info, assignment_infos()),
}
"""Valid bytes of each kind of message."""
