"""What a member calls: subscribe, fetch, heartbeat, leave; the happy path, the long poll, and each refusal."""

from __future__ import annotations

import base64
import json
import threading
import time

import httpx
import pytest

from tests.coordinator_api.group_members import (
    PROBING_INTERVAL_MS,
    HttpMember,
    assignment_info,
    new_group,
    problem,
    settle,
    subscription,
)
from tests.coordinator_api.service_process import ServiceProcess


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


def test_should_rejoin_under_the_same_member_id_with_200(client: httpx.Client) -> None:
    member = HttpMember(client, new_group(client))
    member.subscribe()
    settle(member)
    member_id = member.member_id

    again = member.subscribe(offset_sums={"0_0": 7})

    assert (again.status_code, again.json()["member_id"]) == (200, member_id)


def test_should_move_a_task_in_two_rebalances_so_that_nobody_owns_it_twice(client: httpx.Client) -> None:
    group_id = new_group(client, partitions=2, configs={"acceptable.recovery.lag": 1_000_000})
    old, new = HttpMember(client, group_id), HttpMember(client, group_id)
    old.subscribe()
    settle(old)
    assert old.active == ("0_0", "0_1")

    new.subscribe(offset_sums={"0_0": 1_000, "0_1": 1_000})
    assert old.heartbeat().json()["rejoin"] is True
    old.subscribe()
    assert old.fetch().json()["followup"] is True
    assert new.fetch().status_code == 200
    assert (len(old.active), new.active) == (1, ())
    settle(old, new)

    assert sorted(old.active + new.active) == ["0_0", "0_1"]
    assert (len(old.active), len(new.active)) == (1, 1)


def test_should_keep_the_probing_deadline_of_a_warm_up(client: httpx.Client) -> None:
    group_id = new_group(client, partitions=2)
    old, new = HttpMember(client, group_id), HttpMember(client, group_id)
    old.subscribe()
    settle(old)

    new.subscribe()
    old.subscribe()
    before_ms = time.time() * 1000
    settle(old, new)

    assert (old.active, new.active, len(new.standby)) == (("0_0", "0_1"), (), 1)
    probing_at_ms = client.get(f"/v1/groups/{group_id}").json()["probing_rebalance_at_ms"]
    assert abs(probing_at_ms - before_ms - PROBING_INTERVAL_MS) < 10_000
    described = client.get(f"/v1/groups/{group_id}").json()["tasks"]
    assert [entry["role"] for entry in described] == ["active", "warm-up", "active"] or [
        entry["role"] for entry in described
    ] == ["active", "active", "warm-up"]


def test_should_hold_a_fetch_until_the_assignment_is_there(client: httpx.Client) -> None:
    member = HttpMember(client, new_group(client))
    member.subscribe()

    not_yet = member.fetch(wait_ms=0)
    held = member.fetch(wait_ms=30_000)

    assert (not_yet.status_code, not_yet.content) == (204, b"")
    assert (held.status_code, held.json()["generation_id"]) == (200, 1)


def test_should_answer_204_when_the_wait_is_over(service: ServiceProcess, client: httpx.Client) -> None:
    member = HttpMember(client, new_group(client))
    member.subscribe()
    settle(member)

    started = time.monotonic()
    response = member.fetch(wait_ms=300, min_generation=member.generation_id + 1)

    assert (response.status_code, time.monotonic() - started >= 0.3) == (204, True)


def test_should_answer_a_held_fetch_when_the_member_is_removed_meanwhile(client: httpx.Client) -> None:
    member = HttpMember(client, new_group(client))
    member.subscribe()
    settle(member)
    answers: list[httpx.Response] = []
    waiting = threading.Thread(target=lambda: answers.append(member.fetch(min_generation=member.generation_id + 1)))
    waiting.start()

    assert member.leave().status_code == 204
    waiting.join(30)

    assert problem(answers[0]) == (404, "UNKNOWN_MEMBER_ID")


def test_should_give_the_bytes_alone_to_who_accepts_octets(client: httpx.Client) -> None:
    member = HttpMember(client, new_group(client))
    member.subscribe()
    settle(member)
    as_json = member.fetch().json()

    raw = client.get(
        f"{member.path}/members/{member.member_id}/assignment", headers={"Accept": "application/octet-stream"}
    )

    assert raw.headers["content-type"] == "application/octet-stream"
    assert raw.content == base64.b64decode(as_json["assignment"])
    assert (raw.headers["assignor-generation-id"], raw.headers["assignor-followup"]) == ("1", "false")
    assert [str(task) for task in assignment_info(raw.content).active_tasks] == ["0_0", "0_1", "0_2", "0_3"]


def test_should_give_a_static_member_its_assignment_back_and_fence_the_older_incarnation(client: httpx.Client) -> None:
    group_id = new_group(client)
    old = HttpMember(client, group_id, group_instance_id="app-p0-t0", incarnation=1)
    new = HttpMember(client, group_id, group_instance_id="app-p0-t0", incarnation=2)
    new.process_id = old.process_id
    old.subscribe()
    settle(old)

    assert new.subscribe(old_active := dict.fromkeys(old.active, 900)).status_code == 201
    settle(new)

    assert new.active == old.active == tuple(old_active)
    assert new.member_id != old.member_id
    assert problem(old.heartbeat()) == (409, "FENCED_INSTANCE_ID")
    assert problem(old.subscribe()) == (409, "FENCED_INSTANCE_ID")


def test_should_remove_a_member_whose_session_runs_out_and_give_its_tasks_away(client: httpx.Client) -> None:
    group_id = new_group(client, partitions=2)
    quiet, lively = HttpMember(client, group_id, session_timeout_ms=600), HttpMember(client, group_id)
    lively.subscribe()
    quiet.subscribe()
    settle(lively, quiet)

    lively.fetch(min_generation=lively.generation_id + 1)
    while not lively.heartbeat().json()["rejoin"]:
        time.sleep(0.05)
    lively.subscribe()
    settle(lively)

    assert lively.active == ("0_0", "0_1")
    assert problem(quiet.heartbeat()) == (404, "UNKNOWN_MEMBER_ID")
    assert client.get(f"{lively.path}/rebalances").json()["rebalances"][0]["reason"] == "member-removed"


def test_should_not_count_a_held_fetch_as_a_sign_of_life(client: httpx.Client) -> None:
    member = HttpMember(client, new_group(client), session_timeout_ms=500)
    member.subscribe()
    settle(member)

    held = member.fetch(wait_ms=20_000, min_generation=member.generation_id + 1)

    assert problem(held) == (404, "UNKNOWN_MEMBER_ID")


@pytest.mark.parametrize(
    "changes, status, code",
    [
        ({"session_timeout_ms": 499}, 422, "INVALID_SESSION_TIMEOUT"),
        ({"session_timeout_ms": 1_800_001}, 422, "INVALID_SESSION_TIMEOUT"),
        ({"session_timeout_ms": "30000"}, 422, "INVALID_REQUEST"),
        ({"session_timeout_ms": 30_000.0}, 422, "INVALID_REQUEST"),
        ({"session_timeout_ms": True}, 422, "INVALID_REQUEST"),
        ({"rebalance_timeout_ms": 0}, 422, "INVALID_REQUEST"),
        ({"rebalance_timeout_ms": None}, 422, "INVALID_REQUEST"),
        ({"member_id": "nobody"}, 404, "UNKNOWN_MEMBER_ID"),
        ({"subscription": "not base64"}, 422, "INVALID_REQUEST"),
        ({"subscription": "AAAA\n"}, 422, "INVALID_REQUEST"),
        ({"subscription": 7}, 422, "INVALID_REQUEST"),
        ({"client_id": "x" * 1_001}, 422, "INVALID_REQUEST"),
        ({"client_id": "\ud800"}, 422, "INVALID_REQUEST"),
        ({"incarnation": -1}, 422, "INVALID_REQUEST"),
        ({"join_id": ""}, 422, "INVALID_REQUEST"),
        ({"join_id": "x" * 101}, 422, "INVALID_REQUEST"),
        ({"join_id": "x", "member_id": "m"}, 422, "INVALID_REQUEST"),
        ({"leave_on_disconnect": 1}, 422, "INVALID_REQUEST"),
        ({f"surprise{number}": 1 for number in range(17)}, 422, "INVALID_REQUEST"),
        ({"surprise": "x" * 4_100}, 422, "INVALID_REQUEST"),
    ],
)
def test_should_refuse_a_subscription_that_cannot_be(
    client: httpx.Client, changes: dict[str, object], status: int, code: str
) -> None:
    member = HttpMember(client, new_group(client))

    assert problem(member.subscribe(**changes)) == (status, code)  # type: ignore[arg-type]
    assert client.get(member.path).json()["members"] == []


@pytest.mark.parametrize("cut", [0, 1, 2, 20, 40])
def test_should_say_at_which_byte_a_subscription_cannot_be_read(client: httpx.Client, cut: int) -> None:
    group_id = new_group(client)
    raw = subscription("9638c027-9105-4c73-b9ed-d0bfcb47a168")[:cut]

    response = HttpMember(client, group_id).subscribe(subscription=base64.b64encode(raw).decode())

    assert problem(response) == (422, "INVALID_REQUEST")
    assert response.json()["where"] == "subscription"
    assert 0 <= response.json()["offset"] <= cut


def test_should_refuse_a_subscription_without_user_data(client: httpx.Client) -> None:
    no_user_data = bytes.fromhex("0000 00000000 ffffffff")

    response = HttpMember(client, new_group(client)).subscribe(subscription=base64.b64encode(no_user_data).decode())

    assert problem(response) == (422, "INVALID_REQUEST")
    assert "user data" in response.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"generation_id": 2**31},
        {"generation_id": "1"},
        {"generation_id": 1, "task_offset_sums": {"zero": 1}},
        {"generation_id": 1, "task_offset_sums": {"0_1": 2**63}},
        {"generation_id": 1, "task_offset_sums": {"0_99999999999": 1}},
        {"generation_id": 1, "task_offset_sums": [1]},
        {"generation_id": True},
        {"generation_id": 1.0},
        {"generation_id": 1, "task_offset_sums": {"0_1": True}},
        {"generation_id": 1, "task_offset_sums": {f"0_{number}": 1 for number in range(5_000)}, "padding": "x" * 4_100},
        {"generation_id": 1, **{f"surprise{number}": 1 for number in range(17)}},
    ],
)
def test_should_refuse_a_heartbeat_that_cannot_be(client: httpx.Client, body: dict[str, object]) -> None:
    path = f"/v1/groups/{new_group(client)}/members/m/heartbeat"

    assert problem(client.post(path, json=body)) == (422, "INVALID_REQUEST")


def test_should_ignore_a_few_fields_of_a_later_release_in_every_call_of_a_member(client: httpx.Client) -> None:
    later = {f"later{number}": "x" * 200 for number in range(16)}
    member = HttpMember(client, new_group(client))

    joined = member.subscribe(**later)  # type: ignore[arg-type]
    settle(member)
    rejoined = member.subscribe(**later)  # type: ignore[arg-type]
    settle(member)
    beat = member.heartbeat(**later)
    beats = {str(member.member_id): {"generation_id": member.generation_id}}
    process_beat = client.post(f"{member.path}/heartbeat", json={"members": beats, **later})
    left = client.request("DELETE", f"{member.path}/members/{member.member_id}", json=later)

    answers = (joined, rejoined, beat, process_beat, left)
    assert [answer.status_code for answer in answers] == [201, 200, 200, 200, 204]


@pytest.mark.parametrize(
    "body",
    [b"[]", b"{", b'{"a":NaN}', json.dumps({f"f{n}": 1 for n in range(17)}).encode(), b'{"a":"%s"}' % (b"x" * 5_000)],
)
def test_should_refuse_a_leave_whose_body_cannot_be(client: httpx.Client, body: bytes) -> None:
    member = HttpMember(client, new_group(client))
    member.subscribe()

    refused = client.request("DELETE", f"{member.path}/members/{member.member_id}", content=body)

    assert problem(refused) == (422, "INVALID_REQUEST")
    assert member.leave().status_code == 204


def process_beat(*members: HttpMember, known: str | None = None, wait_ms: int = 0) -> httpx.Response:
    """One heartbeat for all of them, on the connection of the first."""
    beats = {str(member.member_id): {"generation_id": member.generation_id} for member in members}
    path = f"{members[0].path}/heartbeat?wait_ms={wait_ms}"
    return members[0].client.post(path, json={"members": beats, **({"known": known} if known else {})})


def test_should_answer_one_heartbeat_for_all_members_of_a_process_and_hold_it_until_there_is_news(
    client: httpx.Client,
) -> None:
    group_id = new_group(client)
    first, second = HttpMember(client, group_id), HttpMember(client, group_id)
    first.subscribe()
    second.subscribe()
    settle(first, second)
    told = process_beat(first, second)
    stranger = HttpMember(client, group_id)
    stranger.member_id = "nobody"
    with_stranger = process_beat(first, stranger).json()["members"]["nobody"]

    answers: list[httpx.Response] = []
    holding = threading.Thread(
        target=lambda: answers.append(process_beat(first, second, known=told.json()["news"], wait_ms=60_000))
    )
    holding.start()
    while "assignor_long_polls 0.0" in client.get("/metrics").text:
        pass
    third = HttpMember(client, group_id)
    third.subscribe()
    holding.join(60)

    members = told.json()["members"]
    assert (told.status_code, told.json()["state"]) == (200, "Stable")
    quiet = {"rejoin": False, "stop": False, "assignment_generation": first.generation_id}
    assert members == {first.member_id: quiet, second.member_id: quiet}
    assert with_stranger["code"] == "UNKNOWN_MEMBER_ID"
    assert answers[0].json()["members"][first.member_id]["rejoin"] is True


def test_should_repeat_the_answer_to_a_first_join_that_is_sent_again(client: httpx.Client) -> None:
    member = HttpMember(client, new_group(client), join_id="chosen by the caller")

    first = member.subscribe()
    member.member_id = None
    again = member.subscribe()

    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["member_id"] == first.json()["member_id"]
    assert len(client.get(member.path).json()["members"]) == 1


def test_should_remove_the_members_of_a_process_soon_after_its_connection_broke(service: ServiceProcess) -> None:
    with service.client() as survivor:
        group_id = new_group(survivor)
        with service.client() as process:
            dying = HttpMember(process, group_id, leave_on_disconnect=True)
            dying.subscribe()
            settle(dying)
            others = [HttpMember(survivor, group_id) for _ in range(2)]
            for member in others:
                member.subscribe()
            dying.subscribe()
            settle(dying, *others)
            assert process_beat(dying).status_code == 200
            with service.client() as second_process, service.client() as third_process:
                # so that one connection of three is lost: of more than half, it would be the network
                for member, client in zip(others, (second_process, third_process), strict=True):
                    member.client = client
                    assert process_beat(member).status_code == 200
                process.close()
                # long before the end of its session of 30 s
                while len(survivor.get(dying.path).json()["members"]) == 3:
                    time.sleep(0.02)
                described = survivor.get(dying.path).json()

    assert {each["member_id"] for each in described["members"]} == {each.member_id for each in others}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"members": {}},
        {"members": []},
        {"members": {"m": 1}},
        {"members": {"": {"generation_id": 1}}},
        {"members": {"m": {}}},
        {"members": {"m": {"generation_id": 1, "task_offset_sums": {"x": 1}}}},
        {"members": {str(number): {"generation_id": 1} for number in range(1_001)}},
        {"members": {str(number): {"generation_id": 1, "later": 1} for number in range(17)}},
        {"members": {"m": {"generation_id": 1}}, "known": 7},
    ],
)
def test_should_refuse_a_heartbeat_of_a_process_that_cannot_be(client: httpx.Client, body: dict[str, object]) -> None:
    path = f"/v1/groups/{new_group(client)}/heartbeat"

    assert problem(client.post(path, json=body)) == (422, "INVALID_REQUEST")


@pytest.mark.parametrize(
    "body",
    [
        b'{"generation_id": 1, "later": "\\ud800"}',
        b'{"generation_id": 1, "later": NaN}',
        b'{"generation_id": ' + b"9" * 60_000 + b"}",
        b'{"later": ' + b"[" * 60_000,
        b"[1]",
        b"",
        b"\xff",
    ],
)
def test_should_refuse_what_is_no_json_object(client: httpx.Client, body: bytes) -> None:
    path = f"/v1/groups/{new_group(client)}/members/m/heartbeat"

    response = client.post(path, content=body, headers={"Content-Type": "application/json"})

    assert problem(response) == (422, "INVALID_REQUEST")


def test_should_not_read_a_heartbeat_that_a_web_page_may_send_unasked(client: httpx.Client) -> None:
    path = f"/v1/groups/{new_group(client)}/members/m/heartbeat"

    response = client.post(path, content=b'{"generation_id": 1}', headers={"Content-Type": "text/plain"})

    assert problem(response) == (422, "INVALID_REQUEST")


def test_should_refuse_calls_of_a_member_that_it_does_not_know(client: httpx.Client) -> None:
    member = HttpMember(client, new_group(client))
    member.member_id = "nobody"

    assert problem(member.heartbeat()) == (404, "UNKNOWN_MEMBER_ID")
    assert problem(member.fetch(wait_ms=0)) == (404, "UNKNOWN_MEMBER_ID")
    assert problem(member.leave()) == (404, "UNKNOWN_MEMBER_ID")


def test_should_refuse_a_generation_that_has_not_been(client: httpx.Client) -> None:
    member = HttpMember(client, new_group(client))
    member.subscribe()
    settle(member)

    assert problem(member.heartbeat(generation_id=9)) == (409, "ILLEGAL_GENERATION")
    assert problem(member.fetch(min_generation=9)) == (409, "ILLEGAL_GENERATION")


def test_should_send_a_member_to_rejoin_that_fetches_a_rebalance_without_it(client: httpx.Client) -> None:
    group_id = new_group(client)
    old, new = HttpMember(client, group_id), HttpMember(client, group_id)
    old.subscribe()
    settle(old)
    new.subscribe()

    assert problem(old.fetch(min_generation=old.generation_id + 1)) == (409, "REBALANCE_IN_PROGRESS")


@pytest.mark.parametrize(
    "query",
    [
        "min_generation=x",
        "wait_ms=-1",
        "wait_ms=1e9",
        "wait_ms=5.0",
        "wait_ms=%2B5",
        "wait_ms=1_0",
        "min_generation=99999999999",
    ],
)
def test_should_refuse_query_parameters_that_cannot_be(client: httpx.Client, query: str) -> None:
    path = f"/v1/groups/{new_group(client)}/members/m/assignment?{query}"

    assert problem(client.get(path)) == (422, "INVALID_REQUEST")
