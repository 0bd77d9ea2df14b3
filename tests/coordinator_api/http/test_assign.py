"""`POST /v1/assign` runs what Kafka's leader ran; what it refuses, `POST /v1/simulate` refuses too."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from assignor.decisions import DecisionLog
from assignor.errors import IllegalStateError
from assignor.task_assignors.base import Placement, PlacementProblem
from tests.checkout import ROOT, VECTORS
from tests.coordinator_api.group_members import problem
from tests.coordinator_api.service_process import ServiceProcess

BOTH_CALLS = pytest.mark.parametrize("call", ["assign", "simulate"])


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


@BOTH_CALLS
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
def test_should_say_which_field_is_wrong(client: httpx.Client, document: dict[str, Any], where: str, call: str) -> None:
    response = client.post(f"/v1/{call}", json=document)

    assert problem(response) == (422, "INVALID_REQUEST")
    assert response.json()["where"] == where


@BOTH_CALLS
def test_should_say_at_which_byte_a_members_subscription_cannot_be_read(client: httpx.Client, call: str) -> None:
    document = line("rebalances")
    document["input"]["members"]["cut"] = {"client_id": None, "group_instance_id": None, "subscription": "AAMAAAAH"}

    response = client.post(f"/v1/{call}", json=document)

    assert problem(response) == (422, "INVALID_REQUEST")
    assert (response.json()["offset"], response.json()["where"]) == (2, "input.members['cut'].subscription")


@BOTH_CALLS
@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"format": NaN}', b"\xff"])
def test_should_refuse_what_is_no_document(client: httpx.Client, body: bytes, call: str) -> None:
    response = client.post(f"/v1/{call}", content=body, headers={"Content-Type": "application/json"})

    assert problem(response) == (422, "INVALID_REQUEST")


@BOTH_CALLS
@pytest.mark.parametrize("name", ["placements", "rebalances"])
def test_should_not_import_a_class_that_the_service_does_not_allow(client: httpx.Client, name: str, call: str) -> None:
    document = line(name)
    (document if name == "placements" else document["input"])["assignor"] = "os:system"

    assert problem(client.post(f"/v1/{call}", json=document)) == (422, "UNSUPPORTED_ASSIGNOR")


class HasAMistake:
    name = "HasAMistake"

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        raise KeyError("app-1")


class FindsNoPlacement:
    name = "FindsNoPlacement"

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        raise IllegalStateError("no client has room")


@pytest.fixture(scope="module")
def own_classes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServiceProcess, httpx.Client]]:
    """A service that lists both."""
    directory = tmp_path_factory.mktemp("own")
    flags = (
        *("--task-assignor-classes", f"{__name__}:HasAMistake,{__name__}:FindsNoPlacement"),
        *("--log-format", "json"),
    )
    with (
        ServiceProcess(directory, *flags, environment={"PYTHONPATH": str(ROOT)}) as service,
        service.client() as client,
    ):
        yield service, client


@BOTH_CALLS
@pytest.mark.parametrize("name", ["placements", "rebalances"])
def test_should_not_blame_the_caller_when_a_listed_class_fails(
    own_classes: tuple[ServiceProcess, httpx.Client], name: str, call: str
) -> None:
    service, client = own_classes
    document = line(name)
    (document if name == "placements" else document["input"])["assignor"] = f"{__name__}:HasAMistake"

    response = client.post(f"/v1/{call}", json=document)

    assert problem(response) == (500, "UNKNOWN_SERVER_ERROR")
    assert "app-1" not in response.text
    incident = response.json()["instance"].rpartition(":")[2]
    (logged,) = service.logged(lambda text: incident in text, 1)
    assert "HasAMistake raised KeyError: 'app-1'" in logged
    assert 'test_assign.py\\", line ' in logged, "the log says where the class failed"


def test_should_say_at_its_place_why_a_listed_class_places_nothing(
    own_classes: tuple[ServiceProcess, httpx.Client],
) -> None:
    document = {**line("placements"), "assignor": f"{__name__}:FindsNoPlacement"}

    response = own_classes[1].post("/v1/assign", json=document)

    assert problem(response) == (422, "INVALID_REQUEST")
    assert response.json()["where"] == "placement"
    assert response.json()["detail"] == "placement: IllegalStateException: no client has room"
