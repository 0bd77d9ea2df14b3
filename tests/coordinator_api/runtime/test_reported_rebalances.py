"""Rebalances that were led elsewhere: reported over HTTP, shown like any others, refused where they cannot be true."""

import base64
import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from assignor.pipeline.snapshot import Member
from assignor.types import AssignorErrorCode
from coordinator_api.group.subscriptions import error_assignment
from tests.coordinator_api.cli.test_commands import assignor
from tests.coordinator_api.group_members import HttpMember, definition, new_group, problem, subscription
from tests.coordinator_api.reported_rebalances import FIRST, NOW_MS, new_name, reported
from tests.coordinator_api.service_process import ServiceProcess


def report(client: httpx.Client, document: dict[str, Any]) -> httpx.Response:
    return client.post(f"/v1/groups/{document['group_id']}/rebalances", json=document)


def test_should_show_a_group_that_is_led_elsewhere_like_any_other(client: httpx.Client) -> None:
    expected = json.loads(Path(__file__).with_name("led_elsewhere.json").read_text(encoding="utf-8"))
    name = new_name()
    answer = report(client, reported(name, 7))

    assert (answer.status_code, answer.json()) == (201, {"generation_id": 7})
    (listed,) = [each for each in client.get("/v1/groups").json()["groups"] if each["group_id"] == name]
    assert listed == {"group_id": name, **expected["listed"]}
    described = client.get(f"/v1/groups/{name}").json()
    assert described.pop("last_reported_ms") > NOW_MS
    assert described.pop("configs")["acceptable.recovery.lag"] == 100
    assert described.pop("stored_bytes") > 0
    members = {each.pop("member_id"): each for each in described.pop("members")}
    assert described == {"group_id": name, **expected["described"]}
    assert members.keys() == expected["members"].keys()
    assert all(expected["members"][each].items() <= shown.items() for each, shown in members.items())


def test_should_keep_the_rebalances_and_say_why_they_are_as_they_are(client: httpx.Client) -> None:
    name = new_name()
    documents = {generation: reported(name, generation) for generation in (3, 4, 8)}
    for document in documents.values():
        assert report(client, document).status_code == 201

    history = client.get(f"/v1/groups/{name}/rebalances").json()["rebalances"]
    assert [(each["generation_id"], each["outcome"], each["led_by"]) for each in history] == [
        (8, "probing", "kafka"),
        (4, "probing", "kafka"),
        (3, "probing", "kafka"),
    ]
    assert client.get(f"/v1/groups/{name}/rebalances/4").json() == documents[4]
    why = client.get(f"/v1/groups/{name}/rebalances/8/explain", params={"task": "0_0"}).json()
    assert (why["generation_id"], why["same_result"]) == (8, True)
    assert why["explanations"]
    assert client.post("/v1/simulate", json=documents[8]).status_code == 200


def test_should_take_a_report_that_is_sent_again_as_done_and_refuse_an_older_one(client: httpx.Client) -> None:
    name = new_name()
    assert report(client, reported(name, 5)).status_code == 201

    again = report(client, reported(name, 5, {"other": Member(subscription(FIRST))}))

    assert (again.status_code, again.json()) == (200, {"generation_id": 5})
    assert len(client.get(f"/v1/groups/{name}").json()["members"]) == 2, "the first report holds"
    older = report(client, reported(name, 4))
    assert problem(older) == (409, "ILLEGAL_GENERATION")
    assert "DELETE it here first" in older.json()["detail"]
    assert len(client.get(f"/v1/groups/{name}/rebalances").json()["rebalances"]) == 1


_DRAINS_OF_ONE = [(call, "drain?member=first-consumer") for call in ("POST", "DELETE")]


def test_should_not_serve_members_of_a_group_that_is_led_elsewhere(client: httpx.Client) -> None:
    name = new_name()
    report(client, reported(name, 5))
    member = HttpMember(client, name)
    joined = member.subscribe()

    assert problem(joined) == (409, "NOT_COORDINATOR")
    assert "led by kafka" in joined.json()["detail"]
    assert "DELETE" in joined.json()["detail"]
    member.member_id = "first-consumer"
    for refused in (member.heartbeat(), member.fetch(0), member.leave(), client.put(member.path, json=definition())):
        assert problem(refused) == (409, "NOT_COORDINATOR")
    assert problem(client.post(f"{member.path}/drain")) == (409, "NOT_COORDINATOR")
    for call, lever in (("DELETE", "rejoin-grace"), ("PUT", "promotion"), ("DELETE", "promotion"), *_DRAINS_OF_ONE):
        assert problem(client.request(call, f"{member.path}/{lever}")) == (409, "NOT_COORDINATOR")
    for lever in ("rebalance", "pause", "resume", "approve", "discard?reason=no"):
        assert problem(client.post(f"{member.path}/{lever}")) == (409, "NOT_COORDINATOR")
    assert problem(client.put(f"{member.path}/hold", json={"time_limit_ms": 1_000})) == (409, "NOT_COORDINATOR")
    assert problem(client.delete(f"{member.path}/hold")) == (409, "NOT_COORDINATOR")


def test_should_not_take_reports_of_a_group_that_it_leads_itself(client: httpx.Client) -> None:
    group_id = new_group(client)

    refused = report(client, reported(group_id, 5))

    assert problem(refused) == (409, "INCONSISTENT_GROUP_PROTOCOL")
    assert client.get(f"/v1/groups/{group_id}").json()["led_by"] is None


def test_should_delete_it_with_its_members_and_begin_anew(client: httpx.Client) -> None:
    name = new_name()
    report(client, reported(name, 5))

    assert client.delete(f"/v1/groups/{name}").status_code == 204
    assert problem(client.get(f"/v1/groups/{name}/rebalances")) == (404, "GROUP_ID_NOT_FOUND")
    assert report(client, reported(name, 1)).status_code == 201
    assert client.get(f"/v1/groups/{name}").json()["generation_id"] == 1


def test_should_show_a_rebalance_that_failed_where_it_was_led(client: httpx.Client) -> None:
    name = new_name()
    thrown = reported(name, 1)
    thrown["output"] |= {"assignments": {}, "error": "StreamsException: no room"}
    told = reported(name, 2)
    code = AssignorErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA
    raw = base64.b64encode(error_assignment(code)).decode()
    told["output"] |= {"assignments": dict.fromkeys(told["input"]["members"], raw), "probing_rebalance_at_ms": None}

    assert report(client, thrown).status_code == 201
    after_thrown = client.get(f"/v1/groups/{name}").json()
    assert report(client, told).status_code == 201
    after_told = client.get(f"/v1/groups/{name}").json()

    assert (after_thrown["error"], after_thrown["last_rebalance"]["outcome"]) == ("StreamsException: no room", "error")
    assert (after_told["error"], after_told["last_rebalance"]["error_code"]) == (code.name, 1)
    assert after_told["tasks"] == []


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    "change, where",
    [
        (lambda d: d.update(format="placement/1"), "format"),
        (lambda d: d.update(group_id="another"), "group_id"),
        (lambda d: d.update(source="coordinator"), "source"),
        (lambda d: d.update(generation_id=0), "generation_id"),
        (lambda d: d.update(generation_id="5"), "generation_id"),
        (lambda d: d.pop("output"), "output"),
        (lambda d: d.pop("input"), "input"),
        (lambda d: d["input"].update(members={}), "input.members"),
        (lambda d: d["input"].pop("topology"), "input.topology"),
        (lambda d: d["input"]["cluster"]["topics"].update(big={"partitions": 10**9}), None),
        (lambda d: d["input"]["members"]["second-consumer"].update(subscription="AAAA"), None),
        (lambda d: d["output"]["assignments"].update({"second-consumer": "!"}), None),
        (lambda d: d["output"]["assignments"].update({"stranger": "AAEAAAAAAAAAAA=="}), None),
    ],
)
def test_should_say_what_is_wrong_with_a_report(client: httpx.Client, change: Change, where: str | None) -> None:
    name = new_name()
    document = copy.deepcopy(reported(name, 5))
    change(document)

    refused = client.post(f"/v1/groups/{name}/rebalances", json=document)

    assert problem(refused) == (422, "INVALID_REQUEST")
    assert refused.json()["where"] == where or where is None
    assert problem(client.get(f"/v1/groups/{name}")) == (404, "GROUP_ID_NOT_FOUND")


@pytest.mark.parametrize(
    "path, where",
    [
        (("input", "members", "second-consumer", "subscription"), "input.members['second-consumer'].subscription"),
        (("output", "assignments", "second-consumer"), "output.assignments['second-consumer']"),
    ],
)
def test_should_name_the_bytes_that_cannot_be_read(client: httpx.Client, path: tuple[str, ...], where: str) -> None:
    name = new_name()
    document = reported(name, 5)
    *parents, last = path
    holder = document
    for key in parents:
        holder = holder[key]
    holder[last] = base64.b64encode(base64.b64decode(holder[last])[:-3]).decode()

    refused = report(client, document)

    assert problem(refused) == (422, "INVALID_REQUEST")
    assert refused.json()["where"] == where
    assert refused.json()["offset"] > 0


def test_should_be_shown_by_the_commands(service: ServiceProcess, client: httpx.Client) -> None:
    name = new_name()
    report(client, reported(name, 7))
    where = ("--coordinator", service.url)

    listed = assignor("groups", "list", *where, "-o", "wide")[1]
    described = assignor("groups", "describe", name, *where)[1]
    history = assignor("rebalances", "list", name, *where)[1]
    shown = assignor("rebalances", "show", name, "7", *where)[1]
    last = assignor("explain", "--last", "1", "--group", name, *where)[1]

    assert "kafka" in next(line.split() for line in listed.splitlines() if name in line)
    assert described.startswith(f"{name}: Stable, generation 7, HighAvailabilityTaskAssignor\n")
    assert re.search(r"^led by: +kafka, last reported ", described, re.MULTILINE)
    assert "led-elsewhere" in history
    assert shown.startswith(f"group {name}: 1 rebalance, generation 7\n")
    assert "because 0_1 is not yet on the instance where it belongs" in " ".join(shown.split())
    assert last.startswith(f"group {name}: 1 rebalance, generation 7\n")
