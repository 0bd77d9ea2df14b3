"""Groups that can be led from outside, and the reason why others cannot."""

from __future__ import annotations

import pytest

from kafka_client.admin.groups import ConsumerGroupDescription, ConsumerGroupMember
from kafka_groups.leader.group_entry import LeadState, assess_group

INSTANCE = "app-assignor-leader"


def group(
    protocol_type: str, protocol: str, instance_ids: list[str | None], state: str = "Stable"
) -> ConsumerGroupDescription:
    members = tuple(
        ConsumerGroupMember(f"member-{number}", instance_id, "", "", b"", b"")
        for number, instance_id in enumerate(instance_ids)
    )
    return ConsumerGroupDescription("app", state, protocol_type, protocol, members)


@pytest.mark.parametrize(
    ("group_type", "protocol_type", "protocol", "instance_ids", "state", "obstacle"),
    [
        (None, "", "", [], LeadState.FREE, ""),
        ("classic", "consumer", "", [], LeadState.FREE, ""),
        ("classic", "connect", "", [], LeadState.FREE, ""),
        ("classic", "consumer", "stream", [None, INSTANCE], LeadState.OURS, ""),
        ("classic", "consumer", "stream", [None, "app-1"], LeadState.LED, "2 members, and one of them leads it"),
        (None, "consumer", "", [None], LeadState.LED, "1 member, and one of them leads it"),
        ("classic", "consumer", "range", [None], LeadState.FOREIGN, "speak protocol 'range' of type 'consumer'"),
        ("classic", "connect", "v2", [INSTANCE], LeadState.FOREIGN, "is not a Kafka Streams group"),
        ("streams", "", "", [], LeadState.FOREIGN, "group.protocol=streams (KIP-1071)"),
        ("consumer", "", "", [None], LeadState.FOREIGN, "is of type 'consumer', not 'classic'"),
    ],
)
def test_should_tell_groups_that_can_be_led_from_others(
    group_type: str | None,
    protocol_type: str,
    protocol: str,
    instance_ids: list[str | None],
    state: LeadState,
    obstacle: str,
) -> None:
    found = assess_group(group(protocol_type, protocol, instance_ids), group_type, INSTANCE)
    assert found.state is state
    assert obstacle in found.obstacle
    assert bool(found.obstacle) == (state in (LeadState.LED, LeadState.FOREIGN))


@pytest.mark.parametrize("group_state", ["CompletingRebalance", "PreparingRebalance", "Stable"])
def test_should_tell_whether_our_member_leaves_a_generation_without_an_assignment(group_state: str) -> None:
    found = assess_group(group("consumer", "stream", [None, INSTANCE], group_state), "classic", INSTANCE)
    assert found.is_placing is (group_state == "CompletingRebalance")
