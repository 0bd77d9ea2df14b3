"""`POST /v1/assign` runs what Kafka's leader ran."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from assignor.decisions import DecisionLog
from assignor.errors import InputError
from assignor.task_assignors.base import Placement, PlacementProblem
from coordinator_api.http.computations import assign
from coordinator_api.runtime.definitions import DocumentBounds
from tests.checkout import VECTORS
from tests.coordinator_api.group_members import problem


def lines(name: str, count: int) -> Iterator[dict[str, Any]]:
    with gzip.open(VECTORS / f"{name}.jsonl.gz", "rt", encoding="utf-8") as stream:
        for line in itertools.islice(stream, count):
            yield json.loads(line)


def line(name: str) -> dict[str, Any]:
    return next(lines(name, 1))


@pytest.mark.parametrize("name", ["placements", "placements_heap", "placements_tags"])
def test_should_place_tasks_as_kafka_did(client: httpx.Client, name: str) -> None:
    for document in lines(name, 5):
        response = client.post("/v1/assign", json={key: value for key, value in document.items() if key != "output"})
        assert (response.status_code, response.json()) == (200, {"id": document["id"], "output": document["output"]})


def test_should_decide_a_whole_rebalance_as_kafka_did(client: httpx.Client) -> None:
    for document in lines("rebalances", 10):
        output = client.post("/v1/assign", json=document).json()["output"]
        assert output["assignments"].keys() == document["output"]["assignments"].keys()
        assert output["internal_topics"] == document["output"]["internal_topics"]
        assert output["error"] == document["output"]["error"]


def broken(document: dict[str, Any], **changes: object) -> dict[str, Any]:
    return {**document, **changes}


@pytest.mark.parametrize(
    "document, where",
    [
        ({}, "format"),
        (broken(line("placements"), format="placement/2"), "format"),
        (broken(line("placements"), tasks=["zero"]), "tasks[0]"),
        (broken(line("placements"), clients={}), "clients"),
        (broken(line("placements"), surprise=1), "surprise"),
        (broken(line("rebalances"), now_ms=-1), "now_ms"),
        (broken(line("rebalances"), input={**line("rebalances")["input"], "members": {}}), "input.members"),
    ],
)
def test_should_say_which_field_is_wrong(client: httpx.Client, document: dict[str, Any], where: str) -> None:
    response = client.post("/v1/assign", json=document)

    assert problem(response) == (422, "INVALID_REQUEST")
    assert response.json()["where"] == where


def test_should_say_at_which_byte_a_members_subscription_cannot_be_read(client: httpx.Client) -> None:
    document = line("rebalances")
    document["input"]["members"]["cut"] = {"client_id": None, "group_instance_id": None, "subscription": "AAMAAAAH"}

    response = client.post("/v1/assign", json=document)

    assert problem(response) == (422, "INVALID_REQUEST")
    assert (response.json()["offset"], response.json()["where"]) == (2, "input.members['cut'].subscription")


@pytest.mark.parametrize("name", ["placements", "rebalances"])
def test_should_not_import_a_class_that_the_service_does_not_allow(client: httpx.Client, name: str) -> None:
    document = line(name)
    if name == "placements":
        document["assignor"] = "os:system"
    else:
        document["input"]["assignor"] = "os:system"

    assert problem(client.post("/v1/assign", json=document)) == (422, "UNSUPPORTED_ASSIGNOR")


class HasAMistake:
    name = "HasAMistake"

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        raise KeyError("app-1")


@pytest.mark.parametrize("name", ["placements", "rebalances"])
def test_should_say_that_a_listed_class_of_the_user_failed(name: str) -> None:
    path = f"{__name__}:HasAMistake"
    document = line(name)
    changed = document if name == "placements" else document["input"]
    changed["assignor"] = path

    with pytest.raises(InputError, match=rf"{path} raised KeyError: 'app-1'"):
        assign(document, DocumentBounds(max_partitions=10_000, max_subtopologies=100, assignor_classes=(path,)))
