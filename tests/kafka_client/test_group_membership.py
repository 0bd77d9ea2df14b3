"""One member of a classic group against a real coordinator: raw bytes in and out, and the answers."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from assignor.protocol.consumer_protocol import Subscription, encode_subscription
from kafka_client import errors
from kafka_client.group_membership import GroupMembership, JoinedMember, MembershipSettings
from kafka_client.settings.client_settings import client_settings
from tests.oracle.broker import Broker

pytestmark = pytest.mark.kafka

# the brokers read on which topics it is, and a rebalance hangs when they meet some kinds of nonsense
FIRST, FIRST_AGAIN, SECOND = (
    encode_subscription(Subscription(("topic",), user_data)) for user_data in (b"\xff first", b"again", b"second")
)

Make = Callable[..., GroupMembership]


@asynccontextmanager
async def members(broker: Broker) -> AsyncIterator[Make]:
    """Yields a factory of members of one group. The context closes them, and lasts half a minute at most."""
    group = f"membership-{uuid.uuid4().hex[:8]}"
    made: list[GroupMembership] = []

    def make(instance: str | None = None, protocol: str = "stream", session_timeout_ms: int = 6000) -> GroupMembership:
        settings = MembershipSettings(group, "consumer", protocol, session_timeout_ms, 10_000, instance)
        made.append(GroupMembership(client_settings(broker.bootstrap_servers), settings))
        return made[-1]

    try:
        async with asyncio.timeout(30):
            yield make
    finally:
        for member in made:
            await member.close()


async def _until_a_rebalance_begins(member: GroupMembership) -> None:
    with contextlib.suppress(errors.GroupRebalancing):
        while True:
            await member.heartbeat()


async def test_should_carry_bytes_of_members_and_assignments_as_they_are(kafka_broker: Broker) -> None:
    async with members(kafka_broker) as make:
        leader, follower = make("leader"), make()
        assert await leader.group_type() is None
        joined = await leader.join(FIRST, "starts")
        assert joined.is_leader
        assert joined.members == (JoinedMember(joined.member_id, "leader", FIRST),)
        assert await leader.sync({joined.member_id: b"\x00 alone"}) == b"\x00 alone"
        assert await leader.group_type() == "classic"
        following = asyncio.create_task(follower.join(SECOND, "starts"))
        await _until_a_rebalance_begins(leader)
        both = await leader.join(FIRST_AGAIN, "a rebalance")
        followed = await following
        assert {member.metadata for member in both.members} == {FIRST_AGAIN, SECOND}
        assert (followed.generation_id, followed.leader_id, followed.members) == (2, both.member_id, ())
        waiting = asyncio.create_task(follower.sync({}))
        assert await leader.sync({both.member_id: b"one", followed.member_id: b"two"}) == b"one"
        assert await waiting == b"two"
        await follower.leave("done")
        await leader.leave("done")


async def test_should_take_the_place_of_a_static_leader_without_a_new_generation(kafka_broker: Broker) -> None:
    async with members(kafka_broker) as make:
        old, new = make("leader"), make("leader")
        before = await old.join(b"x", "starts")
        await old.sync({before.member_id: b"kept"})
        after = await new.join(b"x", "comes back")
        assert (after.is_leader, after.skip_assignment, after.generation_id) == (True, True, before.generation_id)
        assert await new.sync({}) == b"kept"
        with pytest.raises(errors.FencedInstance):
            await old.heartbeat()
        await old.leave("it is no member any more")
        await new.heartbeat()
        await new.leave("done")
        with pytest.raises(errors.UnknownMember):
            await new.heartbeat()


async def test_should_leave_a_group_while_its_join_is_parked(kafka_broker: Broker) -> None:
    async with members(kafka_broker) as make:
        first, second = make(), make("static")
        joined = await first.join(b"x", "starts")
        await first.sync({joined.member_id: b""})
        parked = asyncio.create_task(second.join(b"y", "starts"))
        await _until_a_rebalance_begins(first)
        parked.cancel()
        await asyncio.wait([parked])
        await second.leave("changed its mind")
        again = await first.join(b"x", "a rebalance")
        assert [member.member_id for member in again.members] == [joined.member_id]
        await first.leave("done")


async def test_should_be_refused_in_clear_words(kafka_broker: Broker) -> None:
    async with members(kafka_broker) as make:
        member = make()
        joined = await member.join(b"x", "starts")
        await member.sync({joined.member_id: b""})
        with pytest.raises(errors.InconsistentProtocol, match="use another protocol than 'range' of type 'consumer'"):
            await make(protocol="range").join(b"y", "starts")
        with pytest.raises(errors.KafkaRefused, match="refuse a session time-out of 1 ms"):
            await make(session_timeout_ms=1).join(b"y", "starts")
        await member.leave("done")


async def test_should_say_that_nobody_answers() -> None:
    settings = client_settings("127.0.0.1:1", {"default.api.timeout.ms": "300"})
    async with GroupMembership(settings, MembershipSettings("group", "consumer", "stream", 6000, 10_000)) as member:
        with pytest.raises(errors.KafkaUnavailable, match=r"127\.0\.0\.1:1: join group 'group': .*nothing listens"):
            await member.join(b"x", "starts")
