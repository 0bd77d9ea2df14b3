"""Whether the brokers can keep a rebalance: a generation is one record of `__consumer_offsets`, everybody's bytes in
it.

One that is too large is answered with an unknown error, to the leader and to every member, and JVM members die of it.
Source: `GroupMetadataManager.classicGroupSync`, `GroupCoordinatorRecordHelpers.newGroupMetadataRecord`.
"""

from __future__ import annotations

from collections.abc import Mapping

from assignor.errors import AssignorFault
from kafka_client.cluster_admin import ClusterAdmin
from kafka_client.errors import KafkaRefused

_TOPIC = "__consumer_offsets"
_LIMIT = "max.message.bytes"
_DEFAULT_LIMIT = 1_048_588
_SURELY_KEPT = 500_000
"""Below it nobody is asked for the limit."""


class GroupRecordTooLarge(AssignorFault):
    """The brokers would refuse the rebalance. The message says which member takes most of it, and what to do."""


async def check_record_size(admin: ClusterAdmin, sizes: Mapping[str, int], assignments: Mapping[str, bytes]) -> None:
    """`sizes`: bytes of subscriptions by member id. Raises GroupRecordTooLarge, KafkaUnavailable."""
    of_members = {member: size + len(assignments[member]) for member, size in sizes.items()}
    total = sum(of_members.values())
    if total <= _SURELY_KEPT:
        return
    limit = await _limit(admin)
    if total > limit:
        largest = max(of_members, key=lambda member: of_members[member])
        raise GroupRecordTooLarge(
            f"its record would have {total} bytes, {of_members[largest]} of them of member {largest}, and {_LIMIT} of "
            f"{_TOPIC} is {limit}: stop that member, or raise {_LIMIT} there"
        )


async def _limit(admin: ClusterAdmin) -> int:
    """Who may not ask gets Kafka's default."""
    try:
        configs = await admin.topic_configs([_TOPIC])
    except KafkaRefused:
        return _DEFAULT_LIMIT
    return int(configs.get(_TOPIC, {}).get(_LIMIT, _DEFAULT_LIMIT))
