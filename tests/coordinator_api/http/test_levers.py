"""The levers of a group over HTTP: what they do, what they refuse, and what the group's document says of them."""

from __future__ import annotations

import httpx
import pytest

from tests.coordinator_api.group_members import HttpMember, new_group, problem, settled_member

ADA = {"User-Agent": "ada/1"}
OFF: dict[str, object] = {"hold": None, "rejoin_grace": None, "promotion": None, "pause": None, "drained": []}


NO_TIMES: tuple[object, ...] = ({}, {"limit": 1_000}, [], 7)


def levers_of(client: httpx.Client, member: HttpMember) -> object:
    return client.get(member.path).json()["levers"]


def test_should_start_a_rebalance_with_the_reason_of_the_operator(client: httpx.Client) -> None:
    member = settled_member(client)

    asked = client.post(f"{member.path}/rebalance", params={"reason": "the disk was replaced"})
    described = client.get(member.path).json()

    assert (asked.status_code, asked.content) == (204, b"")
    assert (described["state"], described["reason"]) == ("PreparingRebalance", "the disk was replaced")
    assert member.heartbeat().json()["rejoin"] is True


def test_should_tell_members_of_a_pause_until_it_is_resumed(client: httpx.Client) -> None:
    member = settled_member(client)
    before = member.heartbeat().json()
    beat = {"members": {member.member_id: {"generation_id": member.generation_id}}}
    known = client.post(f"{member.path}/heartbeat", json=beat).json()

    asked = client.post(f"{member.path}/pause", params={"reason": "the database is being moved"}, headers=ADA)
    again = client.post(f"{member.path}/pause", params={"reason": "once more"})
    paused, told = member.heartbeat().json(), client.post(f"{member.path}/heartbeat", json=beat).json()
    document = client.get(member.path).json()
    described = document["levers"]
    resumed = client.post(f"{member.path}/resume")

    assert [one.status_code for one in (asked, again, resumed)] == [204, 204, 204]
    assert paused == {**before, "paused": True}
    assert told["paused"] is True
    assert told["news"] != known["news"]
    assert (document["state"], document["condition"]) == ("Stable", "PAUSED")
    assert document["advice"].endswith("`assignor groups resume`.")
    assert described["pause"].pop("at_ms") > 0
    assert described == {**OFF, "pause": {"by": "ada/1 at 127.0.0.1", "reason": "the database is being moved"}}
    assert member.heartbeat().json() == before
    assert levers_of(client, member) == OFF


def test_should_tell_who_joins_a_paused_group_at_once(client: httpx.Client) -> None:
    group_id = new_group(client)

    assert client.post(f"/v1/groups/{group_id}/pause").status_code == 204

    assert HttpMember(client, group_id).subscribe().json()["paused"] is True


def test_should_refuse_a_large_body_of_a_lever(client: httpx.Client) -> None:
    body = {"grace_ms": 60_000, "more": "x" * 65_536}

    assert problem(client.put("/v1/groups/g/rejoin-grace", json=body)) == (413, "MESSAGE_TOO_LARGE")


def test_should_say_what_a_drained_instance_waits_for_and_when_it_can_be_stopped(client: httpx.Client) -> None:
    member = settled_member(client)
    at = f"{member.path}/drain"
    process_id = client.get(member.path).json()["members"][0]["process_id"]
    asked = client.post(at, params={"instance": process_id.upper(), "reason": "the disk"}, headers=ADA)
    first = client.get(at, params={"instance": process_id}).json()
    listed = client.get(member.path).json()["levers"]["drained"]
    unknown = client.get(at, params={"member": "nobody"})
    ended = client.delete(at, params={"instance": process_id})

    assert (asked.status_code, ended.status_code) == (204, 204)
    assert first == listed[0]
    assert (first["by"], first["reason"], first["safe_to_stop"]) == ("ada/1 at 127.0.0.1", "the disk", False)
    assert [each["why"] for each in first["missing"]][-1] == "a rebalance is under way"
    assert problem(unknown) == (404, "UNKNOWN_MEMBER_ID")
    assert levers_of(client, member) == OFF


def test_should_refuse_to_drain_what_the_group_does_not_have(client: httpx.Client) -> None:
    member = settled_member(client)
    at = f"{member.path}/drain"
    stranger = "00000000-0000-0000-0000-000000000001"

    assert problem(client.post(at, params={"instance": stranger})) == (404, "UNKNOWN_MEMBER_ID")
    assert problem(client.post(at, params={"member": "nobody"})) == (404, "UNKNOWN_MEMBER_ID")
    assert problem(client.post(at, params={"member": "m", "instance": stranger})) == (422, "INVALID_REQUEST")
    assert problem(client.get(at)) == (422, "INVALID_REQUEST")
    assert client.get(member.path).json()["draining"] is False


@pytest.mark.parametrize(
    ("lever", "body"),
    [
        *(("rejoin-grace", {"grace_ms": value}) for value in (999, 3_600_001, "60s", 1.5)),
        *(("hold", {"time_limit_ms": value}) for value in (0, 604_800_001, "10m")),
        *((lever, body) for lever in ("rejoin-grace", "hold") for body in NO_TIMES),
    ],
)
def test_should_refuse_a_time_that_is_none(client: httpx.Client, lever: str, body: object) -> None:
    path = f"/v1/groups/{new_group(client)}"

    assert problem(client.put(f"{path}/{lever}", json=body)) == (422, "INVALID_REQUEST")
    assert client.get(path).json()["levers"] == OFF
