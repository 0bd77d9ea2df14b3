"""`POST /v1/simulate` forecasts what `rebalance_analysis.simulate` does, within bounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from coordinator_api.errors import AssignorNotListed
from coordinator_api.http.computations import simulate
from coordinator_api.runtime.definitions import DocumentBounds
from rebalance_analysis.rerun import parse_recorded
from rebalance_analysis.simulate import ForecastModel, forecast, forecast_document
from tests.coordinator_api.group_members import problem
from tests.coordinator_api.service_process import ServiceProcess
from tests.recorded import document, documents

WCFLOW = "recordings/wcflow.jsonl.gz"


def recorded_rebalance() -> dict[str, Any]:
    """Nine probing rebalances and as many follow-ups until the group is stable."""
    return document(WCFLOW, "wcflow.3")


def placement_problem() -> dict[str, Any]:
    return next(iter(documents("placements.jsonl.gz")))


def test_should_forecast_a_recorded_rebalance(client: httpx.Client) -> None:
    recorded = recorded_rebalance()

    response = client.post("/v1/simulate", json=recorded)

    ahead = forecast(parse_recorded(recorded))
    expected = json.loads(json.dumps(forecast_document(ahead, ForecastModel())))
    assert (response.status_code, response.json()) == (200, {"id": "wcflow.3", "forecast": expected})
    assert (expected["end"], expected["probing_rounds"], len(expected["rounds"])) == ("stable", 9, 18)


def test_should_forecast_a_placement_problem(client: httpx.Client) -> None:
    recorded = placement_problem()

    answer = client.post("/v1/simulate", json=recorded).json()

    expected = forecast_document(forecast(parse_recorded(recorded)), ForecastModel())
    assert answer == {"id": recorded["id"], "forecast": json.loads(json.dumps(expected))}


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
    large = {**placement_problem(), "assignor": "os:system"}

    with pytest.raises(AssignorNotListed):
        simulate(large, DocumentBounds(max_partitions=1, max_subtopologies=1), ForecastModel(), None)


def test_should_end_with_an_error_when_the_leader_would(client: httpx.Client) -> None:
    recorded = recorded_rebalance()
    recorded["input"]["cluster"]["topics"] = {}

    answer = client.post("/v1/simulate", json=recorded).json()["forecast"]

    assert (answer["end"], answer["rounds"]) == ("error", [])
    assert answer["error"] == "every member is sent the error INCOMPLETE_SOURCE_TOPIC_METADATA"


def test_should_not_do_more_work_than_one_rebalance_of_the_largest_group(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path, "--group-max-partitions", "150") as service, service.client() as http:
        bounded = http.post("/v1/simulate", json=recorded_rebalance()).json()["forecast"]
        asked = http.post("/v1/simulate", params={"max_rounds": 5}, json=recorded_rebalance())
        large = placement_problem()
        next(iter(large["clients"].values()))["capacity"] = 2**31 - 1
        next(iter(large["clients"].values()))["consumers"] = []
        refused = http.post("/v1/simulate", json=large)

    assert (bounded["end"], len(bounded["rounds"])) == ("out of rounds", 2)
    assert problem(asked) == (422, "INVALID_REQUEST")
    assert asked.json()["where"] == "max_rounds"
    assert problem(refused) == (422, "INVALID_REQUEST")
    assert refused.json()["where"] == "clients"
