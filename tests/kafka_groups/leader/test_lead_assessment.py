"""Groups that can be led from outside, the reason why others cannot, and the session time-outs of a leader."""

from unittest.mock import AsyncMock

import pytest

from kafka_client.admin.groups import ConsumerGroupDescription, ConsumerGroupMember
from kafka_groups.leader.group_entry import GroupEntry, LeadRefused, LeadState, assess_group
from kafka_groups.leader.lead_settings import LeadSettings, OwnSession

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


async def test_should_never_join_a_group_of_plain_consumers() -> None:
    admin, membership = AsyncMock(), AsyncMock()
    admin.describe_group.return_value = group("consumer", "range", [None])
    membership.group_type.return_value = "classic"
    entry = GroupEntry(LeadSettings("app", INSTANCE, join_anyway=True), admin, membership, print)
    with pytest.raises(LeadRefused, match="speak protocol 'range'"):
        await entry.join(lambda: b"", "test")
    membership.join.assert_not_called()


def test_should_have_the_least_session_and_a_longer_one_while_a_standby_waits() -> None:
    session = OwnSession(None)
    assert (session.in_election_ms, session.in_group_ms(has_standby=False)) == (6_000, 6_000)
    assert session.in_group_ms(has_standby=True) == 9_000


def test_should_try_other_sessions_once_the_brokers_have_refused_one() -> None:
    session = OwnSession(None)
    assert session.try_another()
    assert (session.in_election_ms, session.in_group_ms(has_standby=False)) == (10_000, 10_000)
    tried = [session.in_election_ms]
    while session.try_another():
        tried.append(session.in_election_ms)
    assert (max(tried), min(tried)) == (1_800_000, 1_000)


@pytest.mark.parametrize("given_ms, in_election_ms", [(45_000, 6_000), (9_000, 6_000), (3_000, 2_000), (1, 1)])
def test_should_take_the_session_of_the_user_and_elect_before_it_expires(given_ms: int, in_election_ms: int) -> None:
    session = OwnSession(given_ms)
    assert session.in_election_ms == in_election_ms
    assert [session.in_group_ms(has_standby=each) for each in (False, True)] == [given_ms, given_ms]
    assert not session.try_another()
