"""The examples of bodies and answers in `/openapi.json`, composed as Swagger UI does it of those of the fields."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from coordinator_api.http.app import create_app
from coordinator_api.http.models.documents import A_MEMBER_ID, A_REBALANCE
from coordinator_api.http.openapi import described
from coordinator_api.settings import Settings
from tests.coordinator_api.service_process import ServiceProcess

JSON = "application/json"
NO_JSON = {("fetch_assignment", "application/octet-stream"), ("metrics", "text/plain")}
TOKEN = "a-token-for-tests"
GROUP = A_REBALANCE["group_id"]
OF_A_TYPE: dict[str, Any] = {"string": "string", "integer": 0, "number": 0.0, "boolean": True, "null": None}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return described(create_app(Settings()))


def composed(schema: dict[str, Any], document: dict[str, Any]) -> Any:
    """The first example, else the default, else some value of the type; of alternatives the first."""
    if "$ref" in schema:
        named = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return composed({**named, **{name: value for name, value in schema.items() if name != "$ref"}}, document)
    if schema.get("examples"):
        return schema["examples"][0]
    for name in ("default", "const"):
        if name in schema:
            return schema[name]
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return composed(schema["anyOf"][0], document)
    if schema["type"] == "array":
        return [composed(schema["items"], document)]
    if schema["type"] == "object":
        fields = {name: composed(field, document) for name, field in schema.get("properties", {}).items()}
        others = schema.get("additionalProperties", False)
        if others is not False:
            fields["additionalProp1"] = {} if others is True else composed(others, document)
        return fields
    return OF_A_TYPE[schema["type"]]


def operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in document["paths"].values():
        yield from path.values()


def bodies(document: dict[str, Any]) -> dict[str, Any]:
    """By the operation that takes it."""
    return {
        operation["operationId"]: composed(operation["requestBody"]["content"][JSON]["schema"], document)
        for operation in operations(document)
        if "requestBody" in operation
    }


def answers(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Operation and schema of each answer that is JSON: of success, and of errors."""
    for operation in operations(document):
        for answer in operation["responses"].values():
            for media_type, content in answer.get("content", {}).items():
                if (operation["operationId"], media_type) not in NO_JSON:
                    yield operation["operationId"], content["schema"]


def test_should_compose_answers_that_their_schema_takes(document: dict[str, Any]) -> None:
    wrong = [
        (name, error.json_path, error.message)
        for name, schema in answers(document)
        for error in Draft202012Validator({**schema, "components": document["components"]}).iter_errors(
            composed(schema, document)
        )
    ]

    assert wrong == []


def test_should_compose_bodies_that_a_service_takes(document: dict[str, Any], tmp_path: Path) -> None:
    found = bodies(document)
    at = f"/v1/groups/{GROUP}"
    flags, token = ("--group-initial-rebalance-delay-ms", "0"), {"ASSIGNOR_AUTH_TOKEN": TOKEN}
    with ServiceProcess(tmp_path, *flags, environment=token) as service, service.client(TOKEN) as client:

        def taken(operation: str, method: str, path: str, status: int) -> Any:
            answer = client.request(method, path, json=found.pop(operation))
            assert answer.status_code == status, (operation, answer.text)
            return answer.json() if answer.content else None

        taken("report_rebalance", "POST", f"{at}/rebalances", 201)
        assert client.delete(at).status_code == 204  # it was led elsewhere
        taken("declare_group", "PUT", at, 201)
        member_id = taken("subscribe", "POST", f"{at}/subscriptions", 201)["member_id"]
        of_member = f"{at}/members/{member_id}"
        assigned = client.get(f"{of_member}/assignment", params={"min_generation": 1, "wait_ms": 60_000})
        heartbeat = taken("heartbeat", "POST", f"{of_member}/heartbeat", 200)
        members = found["process_heartbeat"]["members"]
        members[member_id] = members.pop(A_MEMBER_ID)
        of_process = taken("process_heartbeat", "POST", f"{at}/heartbeat", 200)
        taken("set_rejoin_grace", "PUT", f"{at}/rejoin-grace", 204)
        taken("hold_rebalances", "PUT", f"{at}/hold", 204)
        taken("leave", "DELETE", of_member, 204)
        again = taken("assign_once", "POST", "/v1/assign", 200)
        forecast = taken("forecast_once", "POST", "/v1/simulate", 200)
        taken("create_token", "POST", "/v1/tokens", 201)

    assert assigned.json()["generation_id"] == 1
    assert (heartbeat["generation_id"], heartbeat["rejoin"]) == (1, False)
    assert of_process["members"][member_id]["assignment_generation"] == 1
    assert again["output"] == A_REBALANCE["output"]
    assert forecast["forecast"]["end"] == "stable"
    assert found == {}
