"""The levers of a group over HTTP: what they do, what they refuse, and what the group's document says of them."""

from __future__ import annotations

import httpx

from tests.coordinator_api.group_members import HttpMember, new_group, problem, settle

OFF: dict[str, object] = {"hold": None, "rejoin_grace": None, "promotion": None, "pause": None, "drained": []}


def a_settled_member(client: httpx.Client) -> HttpMember:
    member = HttpMember(client, new_group(client))
    assert member.subscribe().status_code == 201
    settle(member)
    return member


def levers_of(client: httpx.Client, member: HttpMember) -> object:
    return client.get(member.path).json()["levers"]


def test_should_start_a_rebalance_with_the_reason_of_the_operator(client: httpx.Client) -> None:
    member = a_settled_member(client)

    asked = client.post(f"{member.path}/rebalance", params={"reason": "the disk was replaced"})
    described = client.get(member.path).json()

    assert (asked.status_code, asked.content) == (204, b"")
    assert (described["state"], described["reason"]) == ("PreparingRebalance", "the disk was replaced")
    assert member.heartbeat().json()["rejoin"] is True


def test_should_name_a_rebalance_that_was_requested_without_a_reason(client: httpx.Client) -> None:
    member = a_settled_member(client)

    assert client.post(f"{member.path}/rebalance").status_code == 204

    assert client.get(member.path).json()["reason"] == "operator-requested"


def test_should_refuse_to_rebalance_a_group_without_members(client: httpx.Client) -> None:
    refused = client.post(f"/v1/groups/{new_group(client)}/rebalance")

    assert problem(refused) == (422, "INVALID_REQUEST")
    assert refused.json()["detail"] == (
        "the group has no members, so there is nothing to rebalance; the first instance that joins starts one"
    )


def test_should_show_all_levers_off_at_first(client: httpx.Client) -> None:
    assert levers_of(client, a_settled_member(client)) == OFF
