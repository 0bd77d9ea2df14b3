"""Which groups can be led from outside, and what is said of those that cannot."""

from __future__ import annotations

import pytest

from kafka_groups.leader.group_entry import LeadState, assess_group

INSTANCE = "app-assignor-leader"


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
    found = assess_group(
        "app",
        INSTANCE,
        group_type=group_type,
        protocol_type=protocol_type,
        protocol=protocol,
        instance_ids=instance_ids,
    )
    assert found.state is state
    assert obstacle in found.obstacle
    assert bool(found.obstacle) == (state in (LeadState.LED, LeadState.FOREIGN))


@pytest.mark.parametrize("group_state", ["CompletingRebalance", "PreparingRebalance", "Stable"])
def test_should_tell_whether_our_member_leaves_a_generation_without_an_assignment(group_state: str) -> None:
    found = assess_group(
        "app",
        INSTANCE,
        group_type="classic",
        protocol_type="consumer",
        protocol="stream",
        instance_ids=[None, INSTANCE],
        group_state=group_state,
    )
    assert found.is_placing is (group_state == "CompletingRebalance")
