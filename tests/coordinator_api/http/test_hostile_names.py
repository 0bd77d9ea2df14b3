"""Names that mean harm are refused where they enter, with their place. What an earlier release has stored is served."""

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from coordinator_api.group.record_codec import encode_record
from coordinator_api.group.records import DefinitionChanged
from tests.coordinator_api.group_members import HttpMember, definition, new_group, problem, settle
from tests.coordinator_api.reported_rebalances import new_name, reported
from tests.coordinator_api.service_process import ServiceProcess
from tests.coordinator_api.store.databases import open_repository
from tests.hostile_names import HOSTILE_NAMES

Document = dict[str, Any]
ESCAPES = "../../etc/x"


PLACES: dict[str, Callable[[Document, str], object]] = {
    "application_id": lambda document, name: document.update(application_id=name),
    "cluster.topics[": lambda document, name: document["cluster"]["topics"].update({name: {"partitions": 1}}),
    "existing_internal_topics[": lambda document, name: document["existing_internal_topics"].update(
        {name: {"partitions": 1}}
    ),
    "changelog_end_offsets[": lambda document, name: document["changelog_end_offsets"].update({name: [1]}),
    "committed_offsets[": lambda document, name: document["committed_offsets"].update({name: [1]}),
    "topology.subtopologies[0].source_topics[1]": lambda document, name: _first(document)["source_topics"].append(name),
    "topology.subtopologies[0].sink_topics[0]": lambda document, name: _first(document)["sink_topics"].append(name),
    "topology.subtopologies[0].repartition_sink_topics[0]": lambda document, name: _first(document)[
        "repartition_sink_topics"
    ].append(name),
    "topology.subtopologies[0].repartition_source_topics[0].name": lambda document, name: _first(document)[
        "repartition_source_topics"
    ].append({"name": name}),
    "topology.subtopologies[0].stores[0].changelog_topic": lambda document, name: _first(document)["stores"][0].update(
        changelog_topic=name
    ),
    "topology.copartition_groups[0][0]": lambda document, name: document["topology"]["copartition_groups"].append(
        [name]
    ),
}
"""The path of each name that becomes a topic, and how to put one there."""


def _first(document: Document) -> Document:
    subtopology: Document = document["topology"]["subtopologies"][0]
    return subtopology


def refused(response: httpx.Response, where: str) -> None:
    assert problem(response)[0] == 422, response.text
    body = response.json()
    assert body["where"].startswith(where)
    assert body["detail"].isprintable()


@pytest.mark.parametrize("place", PLACES)
def test_should_refuse_a_name_that_no_topic_can_have_wherever_it_stands(client: httpx.Client, place: str) -> None:
    document = definition()
    PLACES[place](document, ESCAPES)
    group_id = new_name()
    report = reported(group_id, 1)
    PLACES[place](report["input"], ESCAPES)

    refused(client.put(f"/v1/groups/{group_id}", json=document), place)
    refused(client.post(f"/v1/groups/{group_id}/rebalances", json=report), f"input.{place}")
    refused(client.post("/v1/assign", json=report), f"input.{place}")
    refused(client.post("/v1/simulate", json=report), f"input.{place}")
    assert client.get(f"/v1/groups/{group_id}").status_code == 404


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_should_refuse_each_hostile_application_id_and_store(client: httpx.Client, name: str) -> None:
    group_id, of_store = new_name(), definition()
    _first(of_store)["stores"][0]["name"] = name

    refused(client.put(f"/v1/groups/{group_id}", json=definition(application_id=name)), "application_id")
    refused(client.put(f"/v1/groups/{group_id}", json=of_store), "topology.subtopologies[0].stores[0].name")


@pytest.mark.parametrize("name", [name for name in HOSTILE_NAMES if name and "/" not in name])
def test_should_refuse_each_hostile_group_id(client: httpx.Client, name: str) -> None:
    answer = client.put(f"/v1/groups/{quote(name, safe='')}", json=definition())

    if name not in (".", ".."):  # the client itself resolves them, as every browser does
        assert problem(answer) == (422, "INVALID_GROUP_ID")
        assert answer.json()["detail"].isprintable()
    assert all(group["group_id"] != name for group in client.get("/v1/groups").json()["groups"])


def test_should_say_how_long_a_changelog_may_be_named(client: httpx.Client) -> None:
    document = definition(application_id="a" * 200)
    _first(document)["stores"][0].update(name="s" * 60, changelog_topic=f"{'a' * 200}-{'s' * 60}-changelog")

    answer = client.put(f"/v1/groups/{new_name()}", json=document)

    refused(answer, "topology.subtopologies[0].stores[0].changelog_topic")
    assert "has 271 characters, and Kafka's topics have up to 249: choose a shorter" in answer.json()["detail"]


def test_should_take_a_store_of_any_name_in_a_report_when_it_is_not_logged(client: httpx.Client) -> None:
    """Kafka Streams takes it, so the rebalance has happened."""
    group_id = new_name()
    report = reported(group_id, 1)
    _first(report["input"])["stores"].append({"name": "my store"})

    assert client.post(f"/v1/groups/{group_id}/rebalances", json=report).status_code == 201


def test_should_serve_and_delete_a_group_that_an_earlier_release_has_stored(tmp_path: Path) -> None:
    stored = {**definition(application_id=ESCAPES), "members": {}, "leader_process_id": None}
    _first(stored)["stores"][0]["name"] = "\x1b[31m/../x"
    record = encode_record(DefinitionChanged(1, json.dumps(stored, sort_keys=True, separators=(",", ":"))))

    async def write() -> None:
        async with open_repository(tmp_path) as repository:
            await repository.append("old", 0, [record], epoch=0)

    asyncio.run(write())
    flags = ("--database-url", f"sqlite:///{tmp_path / 'store.sqlite3'}", "--group-initial-rebalance-delay-ms", "0")
    with ServiceProcess(tmp_path, *flags) as service, service.client() as client:
        member = HttpMember(client, "old")
        assert client.get("/v1/groups/old").json()["application_id"] == ESCAPES
        assert member.subscribe().status_code == 201
        settle(member)
        assert member.leave().status_code == 204
        refused(client.put("/v1/groups/old", json=definition(application_id=ESCAPES)), "application_id")
        assert client.delete("/v1/groups/old").status_code == 204
        assert client.get("/v1/groups").json()["groups"] == []


def test_should_write_no_line_of_the_log_that_a_caller_has_forged(tmp_path: Path) -> None:
    forged = "x\n2026-01-01T00:00:00Z [error    ] the disk is full\r\x1b[2J\x9b31m\u202e"
    group_id = new_name()
    report = reported(group_id, 1)
    report["output"].update(error=forged, assignments={})
    report["note"] = forged
    flags = ("--log-format", "console", "--group-initial-rebalance-delay-ms", "0")
    with ServiceProcess(tmp_path, *flags) as service, service.client() as client:
        assert client.post(f"/v1/groups/{group_id}/rebalances", json=report).status_code == 201
        own = new_group(client)
        named = HttpMember(client, own, client_id=forged, group_instance_id=forged)
        assert named.subscribe().status_code == 201
        settle(named)
        client.get("/v1/groups/x", headers={"User-Agent": "\x1b[31m"})
        client.delete(f"/v1/groups/{own}/members/{'%1b%5b31m%0aforged'}")
        service.stop()

    assert any("the disk is full" in line for line in service.log)
    assert not any(line.startswith("2026-01-01T00:00:00Z") for line in service.log)
    assert all(line.isprintable() for line in service.log)


def test_should_have_as_many_time_series_after_many_names_as_before(client: httpx.Client) -> None:
    def series() -> set[str]:
        lines = client.get("/metrics").text.splitlines()
        return {line.rpartition(" ")[0] for line in lines if line and not line.startswith("#")}

    def call(number: int) -> None:
        name = f"g{number}"
        client.get(f"/v1/groups/{name}")
        client.get(f"/{name}/{number}")
        client.post(f"/v1/groups/{name}/members/{name}/heartbeat", json={"generation_id": 1})
        client.get(f"/v1/groups/{name}/rebalances/{number}")
        client.request(f"M{number}", f"/v1/groups/{name}", headers={"User-Agent": name, "X-Forwarded-For": name})
        client.request(f"M{number}", f"/{name}")

    call(0)
    client.get("/metrics")
    before = series()
    for number in range(1, 30):
        call(number)

    assert series() == before


@pytest.mark.parametrize("name", [ESCAPES, "\x1b[31m\n", "x" * 1_000, "\U0001f600" * 1_000, "a/b\0c"])
@pytest.mark.parametrize("field", ["client_id", "group_instance_id"])
def test_should_give_a_member_of_any_name_an_id_that_it_can_use(client: httpx.Client, field: str, name: str) -> None:
    """A UUID is added to the name, and the whole was longer than a member id may be."""
    member = HttpMember(client, new_group(client), **{field: name})

    assert member.subscribe().status_code == 201
    assert re.fullmatch(r"[A-Za-z0-9._-]+", str(member.member_id))
    settle(member)
    assert member.leave().status_code == 204
