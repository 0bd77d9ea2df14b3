"""Retries of a failing rebalance, and their end."""

import asyncio

import pytest

from assignor.types import ProcessId
from kafka_client.admin.cluster_admin import ClusterAdmin
from kafka_client.settings.client_settings import client_settings
from kafka_groups.leader.led_rebalance import group_members
from kafka_groups.leader.rebalance_decider import LedRebalanceFailed, RebalanceDecider
from tests.group_model import SimulatedGroup, member, topology_of

NOBODY = "127.0.0.1:1"


async def test_should_not_begin_the_time_anew_with_a_new_generation() -> None:
    """JVM members that wait for an assignment longer than their session begin one, as often as it takes."""
    definition = SimulatedGroup(*topology_of([2]), leader_in_group=False).snapshot()
    one = member(ProcessId(0, 1))
    members = group_members("app", [("one", None, one.subscription)], "leader")
    reports: list[str] = []
    settings = client_settings(NOBODY, {"default.api.timeout.ms": "1", "request.timeout.ms": "1"})
    async with ClusterAdmin(settings) as admin:
        work = RebalanceDecider(admin, definition, None, 0.9, reports.append)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(work.decide(1, members), 0.45)
        with pytest.raises(LedRebalanceFailed, match="generation 2: the rebalance failed"):
            await work.decide(2, members)
    assert [line.split(":")[0] for line in reports] == ["generation 1"]
