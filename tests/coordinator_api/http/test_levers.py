"""The levers of a group over HTTP: what they do and refuse, and what the group's document and history say of them."""

from typing import Any

import httpx
import pytest

from tests.coordinator_api.group_members import HttpMember, new_group, problem, settle, settled_member
from tests.coordinator_api.held_rebalance import ADA, HOUR_MS, held_rebalance, last_rebalance

ADA_SAYS = "ada/1 at 127.0.0.1"
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
    late = HttpMember(client, document["group_id"]).subscribe().json()
    resumed = client.post(f"{member.path}/resume")

    assert [one.status_code for one in (asked, again, resumed)] == [204, 204, 204]
    assert paused == {**before, "paused": True}
    assert (told["paused"], late["paused"]) == (True, True)
    assert told["news"] != known["news"]
    assert (document["state"], document["condition"]) == ("Stable", "PAUSED")
    assert document["advice"].endswith(f"`assignor groups resume {document['group_id']}`.")
    assert described["pause"].pop("at_ms") > 0
    assert described == {**OFF, "pause": {"by": ADA_SAYS, "reason": "the database is being moved"}}
    assert "paused" not in member.heartbeat().json()
    assert levers_of(client, member) == OFF


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
    assert (first["by"], first["reason"], first["safe_to_stop"]) == (ADA_SAYS, "the disk", False)
    assert [each["why"] for each in first["missing"]][-1] == "a rebalance is under way"
    assert problem(unknown) == (404, "UNKNOWN_MEMBER_ID")
    assert levers_of(client, member) == OFF


def test_should_refuse_to_drain_what_the_group_does_not_have(client: httpx.Client) -> None:
    member = settled_member(client)
    at = f"{member.path}/drain"

    assert problem(client.post(at, params={"member": "nobody"})) == (404, "UNKNOWN_MEMBER_ID")
    assert problem(client.post(at, params={"member": "m", "instance": member.process_id})) == (422, "INVALID_REQUEST")
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


def _times(said: Any, *names: str) -> list[int]:
    return [said.pop(name) for name in names]


def test_should_hold_a_rebalance_that_takes_tasks_from_a_living_owner(client: httpx.Client) -> None:
    first, second = held_rebalance(client)

    described = client.get(first.path).json()
    held = described["held_rebalance"]

    since_ms, until_ms = _times(held, "since_ms", "until_ms")
    assert until_ms - since_ms == HOUR_MS
    assert held == {"generation_id": 2, "outcome": "follow-up", "tasks_to_move": held["tasks_to_move"]}
    assert len(held["tasks_to_move"]) == 2
    assert described["state"] == "CompletingRebalance"
    assert described["advice"] == (
        "The rebalance of generation 2 waits for approval, because an operator holds rebalances. Members keep the "
        "tasks they have meanwhile. It is carried out by itself at the end of the time limit. See what it would move, "
        f"then approve or discard it: `assignor groups held {described['group_id']}`."
    )
    assert described["levers"]["hold"].pop("at_ms") > 0
    assert described["levers"]["hold"] == {"time_limit_ms": HOUR_MS, "by": ADA_SAYS, "reason": "a sale"}
    assert first.heartbeat().json() == {
        "state": "CompletingRebalance",
        "rejoin": False,
        "stop": False,
        "generation_id": 2,
    }
    assert [one.fetch(wait_ms=0).status_code for one in (first, second)] == [204, 204]


def test_should_tell_what_a_held_rebalance_would_change(client: httpx.Client) -> None:
    first, second = held_rebalance(client)

    answer = client.get(f"{first.path}/hold").json()

    held = answer["held"]
    actives = [(each["task"], each["active"]) for each in held["difference"]["tasks"]]
    moved = [(task, active) for task, active in actives if active["from"] != active["to"]]
    there_and_back = {"from": first.process_id, "to": second.process_id}
    assert moved == [(task, there_and_back) for task in held["tasks_to_move"]]
    assert held["difference"]["active_elsewhere"] == 2
    assert held["forecast"]["end"] == "stable"
    assert held["forecast"]["active_moves"] == 2
    assert answer["hold"]["time_limit_ms"] == HOUR_MS


def test_should_carry_out_what_is_approved_and_say_so_in_the_history(client: httpx.Client) -> None:
    first, second = held_rebalance(client)
    waiting = last_rebalance(first)

    approved = client.post(f"{first.path}/approve", params={"generation": 2, "reason": "looks good"}, headers=ADA)
    stored = last_rebalance(first)

    assert (approved.status_code, approved.json()) == (200, {"generation_id": 2})
    assert waiting["outcome"] == "held"
    hold: Any = waiting["hold"]
    assert hold.pop("since_ms") > 0
    assert hold == {"ended": None, "by": None, "at_ms": None, "reason": None}
    assert stored["outcome"] == "follow-up"
    hold = stored["hold"]
    since_ms, at_ms = _times(hold, "since_ms", "at_ms")
    assert since_ms <= at_ms
    assert hold == {"ended": "approved", "by": ADA_SAYS, "reason": "looks good"}
    assert (first.fetch().status_code, second.fetch().status_code) == (200, 200)
    assert first.followup, "what it gives up is handed out next"
    settle(first, second)
    assert (len(first.active), len(second.active)) == (2, 2)
    assert client.get(f"{first.path}/hold").json()["held"] is None


def test_should_discard_nothing_without_a_reason(client: httpx.Client) -> None:
    path = f"/v1/groups/{new_group(client)}"

    assert problem(client.post(f"{path}/discard", params={"reason": "no"})) == (409, "ILLEGAL_GENERATION")
    assert problem(client.post("/v1/groups/nobodys/discard")) == (404, "GROUP_ID_NOT_FOUND")
    unexplained = client.post(f"{path}/discard")
    assert problem(unexplained) == (422, "INVALID_REQUEST")
    assert unexplained.json()["detail"] == (
        "query.reason: say why the rebalance is discarded, for those who find it in the history"
    )
