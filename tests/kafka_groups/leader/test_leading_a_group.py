"""Leading a real group on a real broker: its rebalances, what goes wrong in them, and leaders that come and go."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions

from assignor.topology.internal_topics import CreatedTopic
from assignor.types import AssignorErrorCode, TaskId
from kafka_client.admin.cluster_admin import ClusterAdmin
from kafka_client.group_membership import GroupMembership, MembershipSettings
from kafka_client.settings.client_settings import client_settings
from kafka_groups.leader.election import LeadTaken
from kafka_groups.leader.group_entry import LeadRefused
from kafka_groups.leader.rebalance_decider import LedRebalanceFailed
from rebalance_analysis.rerun import run
from tests.kafka_groups.leader.led_group import LedGroup
from tests.kafka_groups.leader.streams_members import StreamsMember
from tests.known import known
from tests.oracle.broker import Broker

pytestmark = pytest.mark.kafka

ONE_SUBTOPOLOGY = {TaskId(0, 0), TaskId(0, 1)}
SHORT: dict[str, object] = {"session_timeout_ms": 3000}


@asynccontextmanager
async def led(group: LedGroup) -> AsyncIterator[LedGroup]:
    """Within a minute."""
    async with asyncio.timeout(60), group:
        yield group


@asynccontextmanager
async def led_member(broker: Broker, directory: Path, **settings: Any) -> AsyncIterator[tuple[LedGroup, StreamsMember]]:
    """A led group with one member, which has both tasks."""
    async with led(LedGroup(broker.bootstrap_servers, directory, **settings)) as group:
        await group.lead_alone()
        async with group.member(1) as member:
            await member.wait_until(lambda: len(member.active) == 2)
            yield group, member


async def test_should_lead_members_and_record_rebalances_to_run_again(kafka_broker: Broker, tmp_path: Path) -> None:
    async with led(LedGroup(kafka_broker.bootstrap_servers, tmp_path)) as group:
        await group.lead_alone()
        async with group.member(5) as first:
            await first.wait_until(lambda: set(first.active) == ONE_SUBTOPOLOGY)
            async with group.member(3) as second:
                await second.wait_until(lambda: len(second.active) == 1)
                assert {*first.active, *second.active} == ONE_SUBTOPOLOGY
                await group.wait_until_reported("because follow-up")
        for document in group.rebalances:
            assert known(run(document).comparison()).bytes_equal
        assert [document["generation_id"] for document in group.rebalances[:2]] == [2, 3]
        assert group.rebalances[0]["output"]["internal_topics"] == {group.changelog: 2}
        assert {document["source"] for document in group.rebalances} == {"kafka"}


async def test_should_rebalance_when_missing_topics_appear(kafka_broker: Broker, tmp_path: Path) -> None:
    async with led(LedGroup(kafka_broker.bootstrap_servers, tmp_path)) as group:
        group.lead()
        await group.wait_until_reported("without members")
        async with group.member(1) as member:
            await member.wait_until(lambda: bool(member.assignments))
            assert member.assignment.err_code == AssignorErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA
            assert f"(missing: {group.source})" in await group.wait_until_reported("INCOMPLETE_SOURCE_TOPIC_METADATA")
            await group.create_source()
            await member.wait_until(lambda: set(member.active) == ONE_SUBTOPOLOGY)
        await group.wait_until_reported(f"because topic {group.source} has 2 partitions")


async def test_should_hand_the_lead_back_when_a_rebalance_fails_too_long(kafka_broker: Broker, tmp_path: Path) -> None:
    """A changelog has another number of partitions than its source now: Kafka's own leader would throw."""

    async with led(LedGroup(kafka_broker.bootstrap_servers, tmp_path)) as group:
        lead = await group.lead_alone(retry_timeout_ms=1500)
        async with group.member(1) as member:
            await member.wait_until(lambda: len(member.active) == 2)
            await _grow(group, 3)
            with pytest.raises(LedRebalanceFailed, match="the lead is handed back"):
                await lead
            await member.wait_until(lambda: member.is_leader)
            assert len(member.assignments) == 1  # and it was never handed anything else
        assert str(group.rebalances[-1]["output"]["error"]).startswith("StreamsException: ")


async def test_should_give_no_tasks_to_a_member_that_cannot_be_read(kafka_broker: Broker, tmp_path: Path) -> None:
    async with led_member(kafka_broker, tmp_path) as (group, member), group.member(2, user_data=b"garbage") as alien:
        await alien.wait_until(lambda: bool(alien.assignments))
        assert (alien.assignment.version, alien.assignment.active_tasks) == (11, ())
        reports = await group.wait_until_reported("the subscription of member assignor-")
        assert "SubscriptionInfo: latest supported version needs 4 bytes" in reports
        await member.wait_until(lambda: len(member.assignments) == 2)
        assert len(member.active) == 2


async def test_should_send_nothing_that_the_brokers_cannot_keep(kafka_broker: Broker, tmp_path: Path) -> None:
    """They would answer every member with an unknown error, of which JVM members die."""

    async with led_member(kafka_broker, tmp_path) as (group, member):
        async with group.member(2, user_data=bytes(2_000_000)):
            reports = await group.wait_until_reported(
                "max.message.bytes of __consumer_offsets is 1048588: stop that member"
            )
            assert "the rebalance failed; next try in 0.5 s" in reports
        await member.wait_until(lambda: len(member.assignments) == 2)
        assert len(member.active) == 2


async def test_should_say_which_topics_of_members_its_topology_lacks(kafka_broker: Broker, tmp_path: Path) -> None:
    """As while a version that reads a topic more is rolled out."""

    async with led_member(kafka_broker, tmp_path) as (group, member):
        newer = StreamsMember(group.address, group.name, 2, (group.source, f"{group.name}-more"))
        async with newer:
            await newer.wait_until(lambda: len(newer.active) == 1)
            reports = await group.wait_until_reported("not all members run the topology given here")
            assert f" subscribes to {group.name}-more, which it does not read" in reports
            assert {*member.active, *newer.active} == ONE_SUBTOPOLOGY


async def test_should_read_a_topic_that_fits_a_source_s_pattern_later(kafka_broker: Broker, tmp_path: Path) -> None:
    async with led(LedGroup(kafka_broker.bootstrap_servers, tmp_path)) as group:
        group.pattern = f"{group.source}.*"
        await group.lead_alone()
        async with group.member(1) as member:
            await member.wait_until(lambda: len(member.active) == 2)
        more = f"{group.source}-more"
        async with ClusterAdmin(client_settings(group.address)) as admin:
            await admin.create_topics({more: CreatedTopic(3, 1, {})})
        newer = StreamsMember(group.address, group.name, 2, (group.source, more))
        async with newer:
            await newer.wait_until(lambda: len(newer.active) == 3)
        assert [line for line in group.reports if ": by pattern" in line or "not all members" in line] == [
            f"topology: by pattern, {more} is read too"
        ]


async def test_should_ask_a_member_of_a_future_version_for_a_common_one(kafka_broker: Broker, tmp_path: Path) -> None:
    async with (
        led_member(kafka_broker, tmp_path) as (group, _),
        group.member(2, user_data=struct.pack(">ii", 12, 12)) as future,
    ):
        await future.wait_until(lambda: bool(future.assignments))
        answer = future.assignments[0]
        assert (answer.version, answer.commonly_supported_version, answer.active_tasks) == (11, 11, ())


async def test_should_keep_the_lead_over_a_crash_without_a_rebalance(kafka_broker: Broker, tmp_path: Path) -> None:
    async with led(LedGroup(kafka_broker.bootstrap_servers, tmp_path, settings=SHORT)) as group:
        await group.create_source()
        first = group.lead()
        await group.wait_until_reported("without members")
        async with group.member(1) as member:
            await member.wait_until(lambda: len(member.active) == 2)
            first.cancel()
            await asyncio.wait([first])
            again = group.lead()
            await group.wait_until_reported("generation 2: the lead is kept")
            with pytest.raises(LeadTaken, match="start this one with --standby"):
                await group.lead()
            group.lead(stand_by=True)
            await group.wait_until_reported("standing by")
            group.reports.clear()
            again.cancel()
            await group.wait_until_reported("generation 2: the lead is kept")
            assert member.joins == 1
            async with group.member(2) as other:
                await other.wait_until(lambda: len(other.active) == 1)


async def test_should_rebalance_when_it_returns_and_needs_more_topics(kafka_broker: Broker, tmp_path: Path) -> None:
    async with led(LedGroup(kafka_broker.bootstrap_servers, tmp_path, stateful=False, settings=SHORT)) as group:
        lead = await group.lead_alone()
        async with group.member(1) as member:
            await member.wait_until(lambda: len(member.active) == 2)
            lead.cancel()
            await asyncio.wait([lead])
            group.stateful = True
            group.lead()
            reports = await group.wait_until_reported("1 internal topic created")
            assert f"because topics of the topology are missing, {group.changelog} among them" in reports


async def test_should_end_when_another_took_its_place(kafka_broker: Broker, tmp_path: Path) -> None:
    async with led(LedGroup(kafka_broker.bootstrap_servers, tmp_path, settings=SHORT)) as group:
        lead = group.lead()
        await group.wait_until_reported("without members")
        instance = f"{group.name}-assignor-leader"
        thief = MembershipSettings(group.name, "consumer", "stream", 6000, 10_000, instance)
        async with GroupMembership(client_settings(group.address), thief) as other:
            await other.join(b"", "takes the place")
            with pytest.raises(LeadTaken, match=f"group.instance.id '{instance}' has replaced this one"):
                await lead
            await other.heartbeat()  # the one that ends has not removed the other
            await other.leave("the test is over")


async def test_should_refuse_a_group_that_another_leads_until_it_is_empty(kafka_broker: Broker, tmp_path: Path) -> None:
    async with led(LedGroup(kafka_broker.bootstrap_servers, tmp_path, settings=SHORT)) as group:
        await group.create_source()
        own = group.member(1)
        async with own:
            await own.wait_until(lambda: own.is_leader)
            with pytest.raises(LeadRefused, match="1 member, and one of them leads it"):
                await group.lead()
            group.lead(wait=True)
            await group.wait_until_reported("waiting until group")
        await group.wait_until_reported("without members of the application")


async def test_should_lead_on_after_a_restart_of_the_broker(own_broker: Broker, tmp_path: Path) -> None:
    async with led_member(own_broker, tmp_path) as (group, member):
        await asyncio.to_thread(own_broker.kill)
        await asyncio.to_thread(own_broker.start)
        async with group.member(2) as other:
            await other.wait_until(lambda: len(other.active) == 1, 30)
            assert {*member.active, *other.active} == ONE_SUBTOPOLOGY


@pytest.mark.long
async def test_should_take_another_session_when_brokers_refuse_the_usual(oracle_jars: str, tmp_path: Path) -> None:
    broker = Broker(tmp_path / "broker", {"group.min.session.timeout.ms": "9000"})
    try:
        await asyncio.to_thread(broker.start)
        async with led(LedGroup(broker.bootstrap_servers, tmp_path, settings={"session_timeout_ms": None})) as group:
            await group.lead_alone()
            reports = await group.wait_until_reported("the brokers refuse a session")
            assert reports.startswith("the brokers refuse a session of 6000 ms; the next try is 10000 ms")
            async with group.member(1) as member:
                await member.wait_until(lambda: len(member.active) == 2)
    finally:
        await asyncio.to_thread(broker.stop)


async def _grow(group: LedGroup, partitions: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=group.address)
    await admin.start()
    try:
        await admin.create_partitions({group.source: NewPartitions(partitions)})
    finally:
        await admin.close()
