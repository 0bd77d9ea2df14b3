"""What processes tell with their heartbeats is in the description of their group, in lists and in tables."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.coordinator_api.group_members import HttpMember, new_group, settled_member

DROPPED = {"code": "RECORDS_DROPPED", "text": "late for a closed window, SUM: 1,300", "count": 1_300, "at_ms": 1}


@pytest.fixture
def member(client: httpx.Client) -> HttpMember:
    return settled_member(client, new_group(client, partitions=2), client_id="worker-1")


def beat(member: HttpMember, *notices: Any, member_id: str | None = None) -> httpx.Response:
    members = {member_id or member.member_id: {"generation_id": member.generation_id}}
    return member.client.post(f"{member.path}/heartbeat", json={"members": members, "notices": list(notices)})


def told(member: HttpMember) -> Any:
    return member.client.get(member.path).json()["notices"]


def test_should_show_the_newest_that_a_process_told(member: HttpMember) -> None:
    assert told(member) == []
    assert beat(member, {**DROPPED, "count": 5}).status_code == 200
    beat(member, DROPPED)
    beat(member)
    assert told(member) == [{"process_id": str(member.process_id), **DROPPED}]
    group_id = member.path.rpartition("/")[2]
    listed = member.client.get("/v1/groups").json()["groups"]
    assert [each["notices"] for each in listed if each["group_id"] == group_id] == [1]


def test_should_not_listen_to_a_member_that_is_not_in_the_group(member: HttpMember) -> None:
    assert beat(member, DROPPED, member_id="somebody").status_code == 200
    assert told(member) == []
