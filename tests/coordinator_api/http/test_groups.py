"""`/v1/groups`: declare, list, describe, drain, delete, and what each refuses."""

import base64
import itertools
import time
import uuid
from typing import Any

import httpx
import pytest

from tests.coordinator_api.group_members import (
    HttpMember,
    definition,
    new_group,
    problem,
    settle,
    settled_member,
    subscription,
)


def test_should_answer_201_for_a_new_group_and_200_for_the_next_definition(client: httpx.Client) -> None:
    group_id = new_group(client)

    same = client.put(f"/v1/groups/{group_id}", json=definition())
    changed = client.put(f"/v1/groups/{group_id}", json=definition(partitions=8))

    assert (same.status_code, same.json()) == (200, {"group_id": group_id, "revision": 1})
    assert (changed.status_code, changed.json()) == (200, {"group_id": group_id, "revision": 2})


def test_should_take_a_definition_that_leaves_out_what_has_a_default(client: httpx.Client) -> None:
    needed = {key: value for key, value in definition().items() if key in ("assignor", "topology", "cluster")}

    response = client.put("/v1/groups/only-what-is-needed", json=needed)

    assert response.status_code == 201
    described = client.get("/v1/groups/only-what-is-needed").json()
    assert described["application_id"] == "only-what-is-needed"
    assert described["configs"]["num.standby.replicas"] == 0


def test_should_give_a_new_group_the_newest_kafka_version_and_keep_the_version_of_another(client: httpx.Client) -> None:
    path = f"/v1/groups/{new_group(client)}"
    assert client.get(path).json()["configs"]["kafka.version"] == "4.4"

    client.put(path, json=definition(configs={"kafka.version": "4.3"}))
    client.put(path, json=definition())
    assert client.get(path).json()["configs"].get("kafka.version", "4.3") == "4.3"

    refused = client.put(path, json=definition(configs={"kafka.version": "4.2"}))
    assert problem(refused) == (422, "INVALID_REQUEST")
    assert "must be one of 4.3, 4.4, not '4.2'" in refused.json()["detail"]


def test_should_refuse_another_topology_under_living_members_unless_told_to_replace_it(client: httpx.Client) -> None:
    group_id = new_group(client)
    member = settled_member(client, group_id)
    another = definition(topology=_stateless())
    before = client.get(f"/v1/groups/{group_id}").json()

    refused = client.put(f"/v1/groups/{group_id}", json=another)
    after = client.get(f"/v1/groups/{group_id}").json()
    replaced = client.put(f"/v1/groups/{group_id}", json=another, params={"replace": "true"})

    assert problem(refused) == (409, "INCONSISTENT_GROUP_PROTOCOL")
    detail = refused.json()["detail"]
    assert detail.startswith(
        f"group {group_id}: it has 1 member, which runs another topology: "
        "subtopology 0 keeps counts, in the new one it does not. If this is another application"
    )
    assert "?replace=true" in detail
    assert detail.endswith(f" by {before['declared_by']}")
    assert {name: refused.json()[name] for name in ("revision", "declared_by", "declared_at_ms")} == {
        "revision": 1,
        "declared_by": before["declared_by"],
        "declared_at_ms": before["declared_at_ms"],
    }
    assert (after["revision"], after["state"], after["generation_id"]) == (1, "Stable", member.generation_id)
    assert (replaced.status_code, replaced.json()["revision"]) == (200, 2)


def test_should_tell_members_and_operators_who_declared_the_group_and_when(client: httpx.Client) -> None:
    group_id, before_ms = f"declared-{uuid.uuid4()}", time.time() * 1000
    name = {b"User-Agent": b"ada\xc3\xa9/1\t " + b"x" * 300}
    assert client.put(f"/v1/groups/{group_id}", json=definition(), headers=name).status_code == 201
    member = HttpMember(client, group_id)

    told = member.subscribe().json()["definition"]
    described = client.get(f"/v1/groups/{group_id}").json()

    assert told["revision"] == described["revision"] == 1
    assert told["declared_by"] == described["declared_by"] == "ada/1 " + "x" * 194 + " at 127.0.0.1"
    assert told["declared_at_ms"] == described["declared_at_ms"]
    # the service's clock stands still while the machine gives it no processor
    assert abs(told["declared_at_ms"] - before_ms) < 60_000
    assert client.put(f"/v1/groups/{group_id}", json=definition()).status_code == 200
    assert client.get(f"/v1/groups/{group_id}").json()["declared_by"].startswith("ada"), "nothing has changed"


def _stateless() -> dict[str, object]:
    topology = definition()["topology"]
    return {**topology, "subtopologies": [{**topology["subtopologies"][0], "stores": []}]}


def test_should_list_and_describe_a_group_with_roles_and_lags(client: httpx.Client) -> None:
    configs = {"num.standby.replicas": 1, "acceptable.recovery.lag": 100}
    group_id = new_group(client, partitions=2, configs=configs)
    first, second = HttpMember(client, group_id), HttpMember(client, group_id, client_id="worker-2")
    first.subscribe()
    second.subscribe()
    settle(first, second)
    first.heartbeat(task_offset_sums={**dict.fromkeys(first.active, -2), **dict.fromkeys(first.standby, 400)})
    second.heartbeat(task_offset_sums={**dict.fromkeys(second.active, -2), **dict.fromkeys(second.standby, 400)})

    listed = client.get("/v1/groups").json()["groups"]
    described = client.get(f"/v1/groups/{group_id}").json()

    assert {
        "group_id": group_id,
        "state": "Stable",
        "generation_id": first.generation_id,
        "members": 2,
        "draining": False,
        "probing_rebalance_at_ms": None,
        "error": None,
        "led_by": None,
        "condition": None,
        "health": {"level": "ok", "reasons": []},
        "notices": 0,
        "flow": None,
        "declared_at_ms": described["declared_at_ms"],
    } in listed
    assert (described["state"], described["generation_id"], described["revision"]) == ("Stable", first.generation_id, 1)
    assert {member["member_id"]: member["active"] for member in described["members"]} == {
        first.member_id: list(first.active),
        second.member_id: list(second.active),
    }
    expected = sorted(
        (task, role, lag, member.member_id, member.process_id)
        for member in (first, second)
        for tasks, role, lag in ((member.active, "active", -2), (member.standby, "standby", 600))
        for task in tasks
    )
    assert len(expected) == 4
    fields = ("task", "role", "lag", "member_id", "process_id")
    assert sorted(tuple(entry[field] for field in fields) for entry in described["tasks"]) == expected


def test_should_describe_where_an_instance_can_be_asked(client: httpx.Client) -> None:
    group_id = new_group(client)
    served, silent = HttpMember(client, group_id), HttpMember(client, group_id)
    told = subscription(served.process_id, endpoint="worker-1:7071")
    served.subscribe(subscription=base64.b64encode(told).decode())
    silent.subscribe()

    described = client.get(f"/v1/groups/{group_id}").json()

    assert {member["member_id"]: member["user_endpoint"] for member in described["members"]} == {
        served.member_id: "worker-1:7071",
        silent.member_id: None,
    }


def test_should_delete_a_group_without_members_and_forget_its_rebalances(client: httpx.Client) -> None:
    group_id = new_group(client)
    member = settled_member(client, group_id)

    assert problem(client.delete(f"/v1/groups/{group_id}")) == (409, "NON_EMPTY_GROUP")
    assert member.leave().status_code == 204
    assert client.delete(f"/v1/groups/{group_id}").status_code == 204

    assert problem(client.get(f"/v1/groups/{group_id}")) == (404, "GROUP_ID_NOT_FOUND")
    assert problem(client.delete(f"/v1/groups/{group_id}")) == (404, "GROUP_ID_NOT_FOUND")
    assert client.put(f"/v1/groups/{group_id}", json=definition()).status_code == 201
    assert client.get(f"/v1/groups/{group_id}/rebalances").json() == {"rebalances": [], "next_before": None}


@pytest.mark.parametrize(
    "method, path",
    [
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/drain"),
        ("POST", "/rebalance"),
        ("POST", "/pause"),
        ("POST", "/resume"),
        ("DELETE", "/rejoin-grace"),
        ("GET", "/hold"),
        ("DELETE", "/hold"),
        ("POST", "/approve"),
        ("GET", "/rebalances"),
        ("GET", "/rebalances/1"),
        ("GET", "/rebalances/1/explain"),
        ("GET", "/members/m/assignment"),
        ("DELETE", "/members/m"),
    ],
)
def test_should_not_know_a_group_that_was_never_declared(client: httpx.Client, method: str, path: str) -> None:
    assert problem(client.request(method, f"/v1/groups/nobody{path}")) == (404, "GROUP_ID_NOT_FOUND")


@pytest.mark.parametrize(
    "changes, code, where",
    [
        ({"assignor": "Nonesuch"}, "INVALID_REQUEST", "assignor"),
        ({"assignor": "os:system"}, "UNSUPPORTED_ASSIGNOR", "assignor"),
        ({"configs": {"num.standby.replica": 1}}, "INVALID_REQUEST", "configs"),
        ({"configs": {"rack.aware.assignment.strategy": "nearest"}}, "INVALID_REQUEST", "configs"),
        ({"cluster": {"provider": "pulsar"}}, "UNSUPPORTED_VERSION", "cluster.provider"),
        ({"cluster": {"provider": "embedded"}}, "INVALID_REQUEST", "cluster.bootstrap.servers"),
        ({"cluster": {"brokers": [], "topics": {"events": {"partitions": -1}}}}, "INVALID_REQUEST", None),
        ({"members": {"m": {}}}, "INVALID_REQUEST", "members"),
        ({"leader_process_id": "9638c027-9105-4c73-b9ed-d0bfcb47a168"}, "INVALID_REQUEST", "leader_process_id"),
        ({"toplogy": {}}, "INVALID_REQUEST", "toplogy"),
        ({"topology": {"subtopologies": [{}], "copartition_groups": []}}, "INVALID_REQUEST", None),
    ],
)
def test_should_say_which_field_of_a_definition_is_wrong(
    client: httpx.Client, changes: dict[str, object], code: str, where: str | None
) -> None:
    response = client.put("/v1/groups/refused", json=definition(**changes))  # type: ignore[arg-type]

    assert problem(response) == (422, code)
    assert response.json()["where"]
    assert where is None or response.json()["where"] == where
    assert problem(client.get("/v1/groups/refused")) == (404, "GROUP_ID_NOT_FOUND")


@pytest.mark.parametrize(
    "body, offset",
    [(b'{"assignor": }', 13), ('{"ä": nope}'.encode(), 8), (b"", 0), (b'{"a": "\xff"}', 7), (b'{"a": NaN}', 6)],
)
def test_should_say_at_which_byte_a_body_is_not_json(client: httpx.Client, body: bytes, offset: int) -> None:
    response = client.put("/v1/groups/refused", content=body)

    assert problem(response) == (422, "INVALID_REQUEST")
    assert response.json()["offset"] == offset


def test_should_tell_the_input_lag_that_members_report(client: httpx.Client) -> None:
    group_id = new_group(client)
    member = settled_member(client, group_id)
    path = f"/v1/groups/{group_id}/flow"
    assert client.get(path).json() == {
        "group_id": group_id,
        "total": None,
        "subtopologies": {},
        "tasks": [],
        "history": [],
    }

    told = member.heartbeat(task_flows={"0_0": [20, 1_500, 70], "0_1": [None, None, 0], "0_2": [1, 0, 3]})

    assert told.status_code == 200, told.text
    flow = client.get(path).json()
    waiting = {"lag": 20, "behind_ms": 1_500, "records_per_s": None, "trend": None}
    assert flow["tasks"][0] == {"task": "0_0", **waiting}
    assert [each["lag"] for each in flow["tasks"]] == [20, None, 1]
    assert flow["total"] == flow["subtopologies"]["0"] == {**waiting, "lag": None}
    assert [(each["lag"], each["behind_ms"]) for each in flow["history"]] == [(21, 1_500)]
    described = client.get(f"/v1/groups/{group_id}").json()["tasks"]
    assert [each["flow"] and each["flow"]["lag"] for each in described] == [20, None, 1, None]


def test_should_want_the_present_instances_while_nothing_is_known(client: httpx.Client) -> None:
    group_id = new_group(client)
    settled_member(client, group_id)

    assert client.get(f"/v1/groups/{group_id}/scale").json() == {
        "group_id": group_id,
        "instances": 1,
        "wanted_instances": 1,
        "most_instances": 1,
        "arrival_per_s": None,
        "capacity_per_s": None,
        "reason": "No instance has reported the flow of its input.",
        "may_remove": False,
        "keeps_because": ["All instances are needed."],
        "removes": [],
        "cost": None,
        "cost_error": None,
    }
    assert problem(client.get(f"/v1/groups/{group_id}/scale?catch_up_s=0")) == (422, "INVALID_REQUEST")


@pytest.mark.long
def test_should_want_more_instances_for_input_that_waits_and_know_their_cost(client: httpx.Client) -> None:
    group_id = new_group(client)
    member = settled_member(client, group_id)
    tasks, processed = member.active, itertools.count(0, 100)

    def scale() -> Any:
        """The heartbeats come every 0.2 s or later, so a task processes 500 records a second or less."""
        flow = [10_000, 60_000, next(processed)]
        assert member.heartbeat(task_flows=dict.fromkeys(tasks, flow)).status_code == 200
        return client.get(f"/v1/groups/{group_id}/scale?catch_up_s=10").json()

    found = scale()
    deadline = time.monotonic() + 30
    while found["capacity_per_s"] is None and time.monotonic() < deadline:  # speeds are measured over ten seconds
        time.sleep(0.2)
        found = scale()

    # what waits is more than the instance processes in 20 s
    assert 1 == found["instances"] < found["wanted_instances"] <= found["most_instances"] == len(tasks)
    assert "40,000 records wait" in found["reason"]
    assert found["cost"]["tasks_that_move"] > 0
    assert found["cost_error"] is None


@pytest.mark.parametrize("flow", [[1, 2], [1, 2, 3, 4], [-1, 2, 3], [1, 2, None], ["1", 2, 3], {"lag": 1}])
def test_should_refuse_a_flow_that_is_none(client: httpx.Client, flow: object) -> None:
    member = settled_member(client, new_group(client))
    refused = member.heartbeat(task_flows={"0_0": flow})
    assert problem(refused) == (422, "INVALID_REQUEST")
    assert "task_flows" in refused.json()["detail"]
