"""`POST /v1/assign` runs what Kafka's leader ran, and `POST /v1/simulate` forecasts as `simulate` does, within bounds.
What one refuses, the other refuses too.
"""

import gzip
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from assignor.errors import IllegalStateError
from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.task_assignors.decisions import DecisionLog
from coordinator_api.errors import AssignorNotListed
from coordinator_api.http.computations import simulate
from coordinator_api.runtime.definitions import DocumentBounds
from rebalance_analysis.rerun import parse_recorded
from rebalance_analysis.simulate import ForecastModel, forecast, forecast_document
from tests.checkout import ROOT, VECTORS
from tests.coordinator_api.group_members import problem
from tests.coordinator_api.service_process import ServiceProcess
from tests.recorded import document as recorded_document

BOTH_CALLS = pytest.mark.parametrize("call", ["assign", "simulate"])


def lines(name: str, count: int) -> Iterator[dict[str, Any]]:
    with gzip.open(VECTORS / f"{name}.jsonl.gz", "rt", encoding="utf-8") as stream:
        yield from map(json.loads, itertools.islice(stream, count))


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


@BOTH_CALLS
@pytest.mark.parametrize(
    "document, where",
    [
        ({}, "format"),
        ({**line("placements"), "format": "placement/2"}, "format"),
        ({**line("placements"), "tasks": ["zero"]}, "tasks[0]"),
        ({**line("placements"), "clients": {}}, "clients"),
        ({**line("placements"), "surprise": 1}, "surprise"),
        ({**line("rebalances"), "now_ms": -1}, "now_ms"),
        ({**line("rebalances"), "input": {**line("rebalances")["input"], "members": {}}}, "input.members"),
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
    classes = f"{__name__}:HasAMistake,{__name__}:FindsNoPlacement"
    flags, environment = ("--task-assignor-classes", classes, "--log-format", "json"), {"PYTHONPATH": str(ROOT)}
    with ServiceProcess(directory, *flags, environment=environment) as service, service.client() as client:
        yield service, client


@BOTH_CALLS
@pytest.mark.parametrize("name", ["placements", "rebalances"])
def test_should_blame_the_listed_class(own_classes: tuple[ServiceProcess, httpx.Client], name: str, call: str) -> None:
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


def test_should_say_why_a_listed_class_places_nothing(own_classes: tuple[ServiceProcess, httpx.Client]) -> None:
    document = {**line("placements"), "assignor": f"{__name__}:FindsNoPlacement"}

    response = own_classes[1].post("/v1/assign", json=document)

    assert problem(response) == (422, "INVALID_REQUEST")
    assert response.json()["where"] == "placement"
    assert response.json()["detail"] == "placement: IllegalStateException: no client has room"


def recorded_rebalance() -> dict[str, Any]:
    """Nine probing rebalances and as many follow-ups until the group is stable."""
    return recorded_document("recordings/wcflow.jsonl.gz", "wcflow.3")


@pytest.mark.parametrize("recorded", [recorded_rebalance(), line("placements")], ids=["rebalance", "placement"])
def test_should_forecast_what_was_recorded(client: httpx.Client, recorded: dict[str, Any]) -> None:
    response = client.post("/v1/simulate", json=recorded)

    expected = json.loads(json.dumps(forecast_document(forecast(parse_recorded(recorded)), ForecastModel())))
    assert (response.status_code, response.json()) == (200, {"id": recorded["id"], "forecast": expected})
    assert expected["end"] == "stable"


def test_should_take_every_number_of_the_model_from_the_query(client: httpx.Client) -> None:
    model = ForecastModel(1234.5, 99, 7, 250, 10_000, 300_000, 0.25, 42)
    query: dict[str, str | int | float] = {
        "restore_records_per_s": 1234.5,
        "standby_records_per_s": 99,
        "appended_records_per_s": 7,
        "rebalance_ms": 250,
        "session_timeout_ms": 10_000,
        "state_cleanup_delay_ms": 300_000,
        "jitter": 0.25,
        "seed": 42,
    }

    answer = client.post("/v1/simulate", params={**query, "max_rounds": 5}, json=recorded_rebalance()).json()

    expected = forecast_document(forecast(parse_recorded(recorded_rebalance()), model, max_rounds=5), model)
    assert answer["forecast"] == json.loads(json.dumps(expected))
    assert (answer["forecast"]["end"], answer["forecast"]["model"]) == ("out of rounds", query)


@pytest.mark.parametrize(
    "query",
    [
        {"max_rounds": "0"},
        {"max_rounds": "1001"},
        {"max_rounds": "many"},
        {"restore_records_per_s": "0"},
        {"standby_records_per_s": "nan"},
        {"appended_records_per_s": "-1"},
        {"appended_records_per_s": "inf"},
        {"rebalance_ms": "-1"},
        {"session_timeout_ms": "2147483648"},
        {"state_cleanup_delay_ms": "0.5"},
        {"jitter": "1.5"},
        {"seed": "9223372036854775808"},
    ],
)
def test_should_say_which_number_is_out_of_bounds(client: httpx.Client, query: dict[str, str]) -> None:
    response = client.post("/v1/simulate", params=query, json=recorded_rebalance())

    assert problem(response) == (422, "INVALID_REQUEST")
    assert response.json()["errors"][0]["where"] == f"query.{next(iter(query))}"


def test_should_name_a_class_that_is_not_allowed_before_anything_that_takes_time() -> None:
    large = {**line("placements"), "assignor": "os:system"}

    with pytest.raises(AssignorNotListed):
        simulate(large, DocumentBounds(max_partitions=1, max_subtopologies=1), ForecastModel(), None)


def test_should_not_do_more_work_than_one_rebalance_of_the_largest_group(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path, "--group-max-partitions", "150") as service, service.client() as http:
        bounded = http.post("/v1/simulate", json=recorded_rebalance()).json()["forecast"]
        asked = http.post("/v1/simulate", params={"max_rounds": 5}, json=recorded_rebalance())
        large = line("placements")
        next(iter(large["clients"].values()))["capacity"] = 2**31 - 1
        next(iter(large["clients"].values()))["consumers"] = []
        refused = http.post("/v1/simulate", json=large)

    assert (bounded["end"], len(bounded["rounds"])) == ("out of rounds", 2)
    assert problem(asked) == (422, "INVALID_REQUEST")
    assert asked.json()["where"] == "max_rounds"
    assert problem(refused) == (422, "INVALID_REQUEST")
    assert refused.json()["where"] == "clients"
