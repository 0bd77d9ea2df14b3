"""A database of schema 0005 opens in every later release: every group is what it was, is answered as then, and goes on.

`stored_database.sqlite3.gz` never changes. `stored_database.json` is what the release that wrote it answered about it
over HTTP, after a restart, without the advice for people. There is one group for each shape that a log can have:
static, dynamic and replaced members, a snapshot, a rebalance being prepared, a failed one, a probing one, a drained
group, and groups that are led elsewhere.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from starlette.testclient import TestClient

from coordinator_api.http.app import create_app
from tests.coordinator_api.group_members import HttpMember, definition, problem, settle
from tests.coordinator_api.reported_rebalances import reported
from tests.coordinator_api.store.databases import settings_for

DATABASE = Path(__file__).with_name("stored_database.sqlite3.gz")
EXPECTED: dict[str, Any] = json.loads(Path(__file__).with_name("stored_database.json").read_text(encoding="utf-8"))


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    """Of the present service, on a copy of the database."""
    settings = settings_for(tmp_path, group_initial_rebalance_delay_ms=0)
    (tmp_path / "store.sqlite3").write_bytes(gzip.decompress(DATABASE.read_bytes()))
    app = create_app(settings)
    with TestClient(app, base_url="http://127.0.0.1") as http:
        app.state.coordinator.overload.admit = lambda kind: None  # the loop of a busy machine is late
        yield cast(httpx.Client, http)  # or httpx2's, where that is installed: both have the same calls


def members_of(client: httpx.Client, group_id: str) -> list[HttpMember]:
    """As the members themselves were when the database was written."""
    return [resumed(client, group_id, known) for known in EXPECTED["members"][group_id]]


def resumed(client: httpx.Client, group_id: str, known: dict[str, Any]) -> HttpMember:
    identity = {name: known[name] for name in ("group_instance_id", "incarnation") if known[name] is not None}
    member = HttpMember(client, group_id, **identity)
    member.process_id, member.member_id = known["process_id"], known["member_id"]
    member.generation_id = known["generation_id"]
    member.active, member.standby = tuple(known["active"]), tuple(known["standby"])
    return member


def described(client: httpx.Client, group_id: str) -> dict[str, Any]:
    """What was described then, without what was not known yet, and without when its members were last heard,
    which starts anew when a group is replayed.
    """
    known = EXPECTED["groups"][group_id]
    document: dict[str, Any] = as_known(client.get(f"/v1/groups/{group_id}").json(), known)
    return document


def as_known(value: Any, known: Any) -> Any:
    """`value` without the keys that its place in `known` has not."""
    if isinstance(value, dict) and isinstance(known, dict):
        return {key: as_known(each, known[key]) for key, each in value.items() if key in known}
    if isinstance(value, list) and isinstance(known, list) and len(value) == len(known):
        return [as_known(each, there) for each, there in zip(value, known, strict=True)]
    return value


def test_should_describe_every_group_as_it_was(client: httpx.Client) -> None:
    listed = [group["group_id"] for group in client.get("/v1/groups").json()["groups"]]

    assert {group_id: described(client, group_id) for group_id in listed} == EXPECTED["groups"]


def test_should_list_the_same_rebalances_and_decide_each_of_them_again(client: httpx.Client) -> None:
    listed = {group_id: client.get(f"/v1/groups/{group_id}/rebalances").json() for group_id in EXPECTED["groups"]}
    addresses = [
        f"/v1/groups/{group_id}/rebalances/{rebalance['generation_id']}/explain"
        for group_id, page in listed.items()
        for rebalance in page["rebalances"]
    ]

    assert as_known(listed, EXPECTED["rebalances"]) == EXPECTED["rebalances"]
    assert [address for address in addresses if not client.get(address).json()["same_result"]] == []


def test_should_answer_every_member_as_then(client: httpx.Client) -> None:
    answers = {
        group_id: [member.heartbeat().json() for member in members_of(client, group_id)]
        for group_id in EXPECTED["members"]
    }

    assert answers == {
        group_id: [each["heartbeat"] for each in known] for group_id, known in EXPECTED["members"].items()
    }


@pytest.mark.parametrize("group_id", ["stable", "probing", "compacted"])
def test_should_go_on_with_a_rebalance_when_a_member_leaves(client: httpx.Client, group_id: str) -> None:
    first, *others = members_of(client, group_id)

    assert first.leave().status_code == 204
    for member in others:
        assert member.subscribe().status_code == 200
    settle(*others)

    assert sorted(task for member in others for task in member.active) == ["0_0", "0_1", "0_2", "0_3"]
    newest = client.get(f"/v1/groups/{group_id}/rebalances").json()["rebalances"][0]
    assert newest["generation_id"] > EXPECTED["groups"][group_id]["generation_id"]


def test_should_finish_the_rebalance_that_was_being_prepared(client: httpx.Client) -> None:
    old, new = members_of(client, "preparing")
    new.awaited = 2

    assert old.subscribe().status_code == 200
    settle(old, new)

    assert old.active == ("0_0", "0_1", "0_2", "0_3")


def test_should_still_fence_the_member_whose_place_was_taken(client: httpx.Client) -> None:
    older = members_of(client, "stable")[0]
    older.member_id = EXPECTED["fenced_member_id"]

    assert problem(older.heartbeat()) == (409, "FENCED_INSTANCE_ID")


def test_should_recover_from_the_failed_rebalance_with_another_definition(client: httpx.Client) -> None:
    (member,) = members_of(client, "failed")

    assert client.put("/v1/groups/failed", json=definition()).status_code == 200
    assert member.subscribe().status_code == 200
    settle(member)

    assert member.active == ("0_0", "0_1", "0_2", "0_3")


@pytest.mark.parametrize(("group_id", "next_generation"), [("reported", 8), ("reported-compacted", 5)])
def test_should_take_the_next_report_from_elsewhere(client: httpx.Client, group_id: str, next_generation: int) -> None:
    assert problem(HttpMember(client, group_id).subscribe()) == (409, "NOT_COORDINATOR")

    response = client.post(f"/v1/groups/{group_id}/rebalances", json=reported(group_id, next_generation))

    assert response.status_code == 201, response.text
    assert client.get(f"/v1/groups/{group_id}").json()["generation_id"] == next_generation


def test_should_start_a_rebalance_of_the_empty_group(client: httpx.Client) -> None:
    member = HttpMember(client, "empty")

    assert member.subscribe().status_code == 201
    settle(member)

    assert member.active == ("0_0", "0_1", "0_2", "0_3")
