"""Health, metrics, logs and the description of the service by itself."""

import json
import re
from pathlib import Path
from typing import Any

import httpx

from coordinator_api.metrics import METRICS
from tests.coordinator_api.group_members import settled_member
from tests.coordinator_api.http.endpoints import RIGHTS
from tests.coordinator_api.http.hostile_callers import wait_for
from tests.coordinator_api.service_process import ServiceProcess

HEALTH = {("GET", "/livez"), ("GET", "/readyz")}
AT_ONCE = ("--group-initial-rebalance-delay-ms", "0")
PAGES = {("GET", "/docs"), ("GET", "/redoc"), ("GET", "/openapi.json")}


def test_should_be_alive_and_ready(client: httpx.Client) -> None:
    assert client.get("/livez").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ok", "parts": {"store": "ok", "groups": "ok"}}


def test_should_describe_every_call_in_openapi(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()

    described = {(method.upper(), path) for path, operations in document["paths"].items() for method in operations}
    assert described == (RIGHTS.keys() - PAGES) | HEALTH
    for operations in document["paths"].values():
        for operation in operations.values():
            assert "default" not in operation["responses"]
            errors = {status: answer for status, answer in operation["responses"].items() if status >= "400"}
            assert {"401", "403", "413", "422", "429", "500", "503"} <= errors.keys()
            for answer in errors.values():
                assert list(answer["content"]) == ["application/problem+json"]
                assert answer["content"]["application/problem+json"]["schema"] == {
                    "$ref": "#/components/schemas/ProblemDocument"
                }
            assert operation.get("description") or operation.get("summary")
    body = document["paths"]["/v1/groups/{group}/subscriptions"]["post"]["requestBody"]
    name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    assert set(document["components"]["schemas"][name]["required"]) == {
        "session_timeout_ms",
        "rebalance_timeout_ms",
        "subscription",
    }
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert references <= document["components"]["schemas"].keys()


def test_should_count_in_kafkas_words(tmp_path: Path) -> None:
    """In a service of its own: members of other tests would leave, or lose their sessions, meanwhile."""
    with ServiceProcess(tmp_path, *AT_ONCE) as service, service.client() as client:

        def counted(name: str) -> float:
            found = re.search(rf"^{re.escape(name)} (\S+)$", client.get("/metrics").text, re.MULTILINE)
            return float(found[1]) if found else 0.0

        member = settled_member(client)
        assert counted("assignor_members") == 1
        heartbeats = counted("assignor_heartbeat_total")  # a slow rebalance is asked for more than once
        member.heartbeat()
        assert counted("assignor_heartbeat_total") - heartbeats == 1
        member.leave()

        assert counted("assignor_members") == 0
        names = ("assignor_rebalance_total", "assignor_join_total", "assignor_leave_total")
        assert [counted(name) for name in names] == [1, 1, 1]
        call = '{method="POST",route="/v1/groups/{group}/subscriptions",status="201"}'
        assert counted(f"assignor_http_requests_total{call}") == 1


def test_should_expose_just_the_documented_metrics(client: httpx.Client) -> None:
    client.get("/nowhere")
    text = client.get("/metrics").text

    families = set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))
    assert families == {metric.name for metric in METRICS}
    assert client.get("/metrics").headers["content-type"].startswith("text/plain")


def test_should_log_changes_as_json_with_group_generation_and_member(service: ServiceProcess) -> None:
    with service.client() as client:
        member = settled_member(client)
    group_id = member.path.rpartition("/")[2]

    def lines_of_group() -> list[dict[str, Any]]:
        said = [json.loads(line) for line in list(service.log) if line.startswith("{")]
        return [line for line in said if line.get("group") == group_id]

    wait_for(lambda: any(line["event"] == "rebalance_completed" for line in lines_of_group()))  # it comes by a pipe
    of_group = lines_of_group()
    audited = [line["call"] for line in of_group if line["event"] == "audit"]
    assert audited == ["PUT /v1/groups/{group}", "POST /v1/groups/{group}/subscriptions"]
    changes = [line for line in of_group if line["event"] != "audit"]
    assert [line["event"] for line in changes] == [
        "definition_changed",
        "member_subscribed",
        "rebalance_preparing",
        "rebalance_completed",
    ]
    assert changes[1]["member"] == member.member_id
    assert (changes[3]["generation"], changes[3]["outcome"]) == (1, "stable")
