"""What a member calls: subscribe, fetch, heartbeat with notices, leave; the long poll, and each refusal."""

import base64
from typing import Any

import httpx
import pytest

from tests.coordinator_api.group_members import (
    HttpMember,
    assignment_info,
    new_group,
    problem,
    settle,
    settled_member,
    subscription,
)


def test_should_hand_out_member_ids_and_every_task_once(client: httpx.Client) -> None:
    group_id = new_group(client, partitions=4)
    first, second = HttpMember(client, group_id, client_id="wörker/1"), HttpMember(client, group_id)

    joined = first.subscribe()
    assert joined.status_code == 201
    assert joined.json()["definition"]["revision"] == 1
    known = {"member_id": first.member_id, "generation_id": 1, "state": "PreparingRebalance"}
    assert joined.json() == {**known, "definition": joined.json()["definition"]}
    assert str(first.member_id).startswith("w_rker_1-")
    assert second.subscribe().status_code == 201
    settle(first, second)

    assert sorted(first.active + second.active) == ["0_0", "0_1", "0_2", "0_3"]
    assert (len(first.active), len(second.active)) == (2, 2)


def test_should_hold_a_fetch_until_the_assignment_is_there(client: httpx.Client) -> None:
    member = HttpMember(client, new_group(client))
    member.subscribe()

    not_yet = member.fetch(wait_ms=0)
    held = member.fetch(wait_ms=30_000)

    assert (not_yet.status_code, not_yet.content) == (204, b"")
    assert (held.status_code, held.json()["generation_id"]) == (200, 1)


def test_should_give_the_bytes_alone_to_who_accepts_octets(client: httpx.Client) -> None:
    member = settled_member(client)
    as_json = member.fetch().json()

    raw = client.get(
        f"{member.path}/members/{member.member_id}/assignment", headers={"Accept": "application/octet-stream"}
    )

    assert raw.headers["content-type"] == "application/octet-stream"
    assert raw.content == base64.b64decode(as_json["assignment"])
    assert (raw.headers["assignor-generation-id"], raw.headers["assignor-followup"]) == ("1", "false")
    assert [str(task) for task in assignment_info(raw.content).active_tasks] == ["0_0", "0_1", "0_2", "0_3"]


@pytest.mark.parametrize("cut", [0, 1, 2, 20, 40])
def test_should_say_at_which_byte_a_subscription_cannot_be_read(client: httpx.Client, cut: int) -> None:
    group_id = new_group(client)
    raw = subscription("9638c027-9105-4c73-b9ed-d0bfcb47a168")[:cut]

    response = HttpMember(client, group_id).subscribe(subscription=base64.b64encode(raw).decode())

    assert problem(response) == (422, "INVALID_REQUEST")
    assert response.json()["where"] == "subscription"
    assert 0 <= response.json()["offset"] <= cut


def test_should_answer_one_heartbeat_for_all_members_of_a_process(client: httpx.Client) -> None:
    group_id = new_group(client)
    first, second = HttpMember(client, group_id), HttpMember(client, group_id)
    first.subscribe()
    second.subscribe()
    settle(first, second)
    beats = {name: {"generation_id": first.generation_id} for name in (first.member_id, second.member_id, "nobody")}

    told = client.post(f"{first.path}/heartbeat", json={"members": beats})

    members = told.json()["members"]
    assert (told.status_code, told.json()["state"]) == (200, "Stable")
    quiet = {"rejoin": False, "stop": False, "assignment_generation": first.generation_id}
    assert (members[first.member_id], members[second.member_id]) == (quiet, quiet)
    assert members["nobody"]["code"] == "UNKNOWN_MEMBER_ID"


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


FAILURE = {"error": "ValueError", "message": "no amount in 'x'", "place": "orders.py:12, in to_amount", "task": "0_1"}


def test_should_show_how_each_instance_ended_and_whether_it_is_back(client: httpx.Client) -> None:
    group_id = new_group(client)
    failed, stopped = (HttpMember(client, group_id, client_id=f"words-{n}-StreamThread-1") for n in (1, 2))
    for member in (failed, stopped):
        member.subscribe()
    assert failed.leave(failure=FAILURE).status_code == 204
    assert stopped.leave().status_code == 204

    ends = client.get(failed.path).json()["ends"]

    no_failure = dict.fromkeys(FAILURE)
    assert [{**end, "at_ms": 0} for end in ends] == [
        {"process_id": stopped.process_id, "client_id": "words-2", "at_ms": 0, "reason": "left"}
        | {**no_failure, "present": False},
        {"process_id": failed.process_id, "client_id": "words-1", "at_ms": 0, "reason": "left"}
        | {**FAILURE, "present": False},
    ]
    assert ends[0]["at_ms"] >= ends[1]["at_ms"] > 0
    failed.member_id = None
    failed.subscribe()
    assert [end["present"] for end in client.get(failed.path).json()["ends"]] == [False, True]


def test_should_not_let_a_member_leave_with_a_failure_that_is_none(member: HttpMember) -> None:
    assert problem(member.leave(failure={"error": ""})) == (422, "INVALID_REQUEST")
    assert member.heartbeat().status_code == 200
