"""Random messages of every version, and what of a message its version carries."""

from collections.abc import Mapping

from hypothesis import strategies as st

from assignor.protocol.assignment_info import AssignmentInfo, encode_assignment_info
from assignor.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from assignor.protocol.subscription_info import SubscriptionInfo, encode_subscription_info
from assignor.types import HostInfo, ProcessId, TaskId, TopicPartition

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
