"""The examples of the OpenAPI document, made by a real service: what is sent to it in one story, and what it answers.

`python -m tests.coordinator_api.http.example_story` writes them anew.
"""

from __future__ import annotations

import base64
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import httpx

from coordinator_api.http.examples import EXAMPLES_FILE
from tests.coordinator_api.group_members import definition, subscription
from tests.coordinator_api.reported_rebalances import reported
from tests.coordinator_api.service_process import ServiceProcess

GROUP, ANOTHER = "words", "orders"
PROCESS_ID = "3f0c2b1e-6c1d-4a53-9a43-2f1f5e6b7a10"
MEMBER_ID = "words-1-8d7f3a52-5a0b-4f3a-9a86-0a5f6c1d2e3b"
TIME_MS = 1_795_372_800_000
FLAGS = ("--group-initial-rebalance-delay-ms", "0")

_TIMES = re.compile(r'("\w*_ms": )1[789]\d{11}\b')

Examples = dict[str, dict[str, Any]]
"""By operation: `body`, and by status what it is answered with."""


class Story:
    """Calls a service, and notes of each operation the first body and the first answer of each status."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self.examples: Examples = {}

    def call(self, operation: str, method: str, path: str, body: object = None, **parameters: object) -> Any:
        answer = self._client.request(method, path, json=body, params=parameters)  # type: ignore[arg-type]
        assert answer.is_success, (operation, answer.text)
        example = self.examples.setdefault(operation, {})
        if body is not None:
            example.setdefault("body", body)
        is_json = bool(answer.content) and answer.headers["content-type"] == "application/json"
        if is_json:
            example.setdefault(str(answer.status_code), answer.json())
        return answer.json() if is_json else None


def told(client: httpx.Client) -> Examples:
    """`client`: of a service with `FLAGS`, whose groups are not those of the story."""
    client.headers["User-Agent"] = "curl/8.5.0"
    story = Story(client)
    at = f"/v1/groups/{GROUP}"
    story.call("service", "GET", "/")
    story.call("show_version", "GET", "/version")
    story.call("livez", "GET", "/livez")
    story.call("readyz", "GET", "/readyz")
    declared = definition(2, application_id=GROUP)
    story.call("declare_group", "PUT", at, declared)
    story.call("declare_group", "PUT", at, declared)
    join = {
        "client_id": "words-1",
        "session_timeout_ms": 45_000,
        "rebalance_timeout_ms": 300_000,
        "subscription": base64.b64encode(subscription(PROCESS_ID)).decode("ascii"),
    }
    joined = story.call("subscribe", "POST", f"{at}/subscriptions", join)
    member_id = joined["member_id"]
    of_member = f"{at}/members/{member_id}"
    fetched = story.call("fetch_assignment", "GET", f"{of_member}/assignment", min_generation=1, wait_ms=60_000)
    beat = {"generation_id": fetched["generation_id"], "task_offset_sums": {"0_0": -2, "0_1": 880}}
    story.call("heartbeat", "POST", f"{of_member}/heartbeat", beat)
    story.call("process_heartbeat", "POST", f"{at}/heartbeat", {"members": {member_id: beat}})
    story.call("list_groups", "GET", "/v1/groups")
    story.call("describe_group", "GET", at)
    story.call("list_rebalances", "GET", f"{at}/rebalances")
    recorded = story.call("show_rebalance", "GET", f"{at}/rebalances/1")
    story.call("explain_rebalance", "GET", f"{at}/rebalances/1/explain", task="0_1")
    rejoin = {**join, "member_id": member_id, "subscription": base64.b64encode(_again()).decode("ascii")}
    story.call("subscribe", "POST", f"{at}/subscriptions", rejoin)
    story.call("fetch_assignment", "GET", f"{of_member}/assignment", min_generation=2, wait_ms=60_000)
    story.call("assign_once", "POST", "/v1/assign", recorded)
    story.call("forecast_once", "POST", "/v1/simulate", recorded, max_rounds=3)
    report = reported(ANOTHER, 7)
    story.call("report_rebalance", "POST", f"/v1/groups/{ANOTHER}/rebalances", report)
    story.call("report_rebalance", "POST", f"/v1/groups/{ANOTHER}/rebalances", report)
    story.call("leave", "DELETE", of_member, {})
    story.call("drain_group", "POST", f"{at}/drain")
    story.call("delete_group", "DELETE", at)
    story.call("delete_group", "DELETE", f"/v1/groups/{ANOTHER}")
    return _always_the_same(story.examples, member_id)


def _again() -> bytes:
    return subscription(PROCESS_ID, {"0_0": -2, "0_1": 880})


def _always_the_same(examples: Examples, member_id: str) -> Examples:
    """With one member id, one time and one digest, whenever the story was told."""
    text = json.dumps(examples).replace(member_id, MEMBER_ID)
    same: Examples = json.loads(_TIMES.sub(rf"\g<1>{TIME_MS}", text))
    same["process_heartbeat"]["200"]["news"] = "5b0a9f4c1d2e3f60718293a4"
    same["service"]["200"]["release"] = same["show_version"]["200"]["version"] = "1.2.3"
    return same


def _write() -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        ServiceProcess(Path(directory), *FLAGS) as service,
        service.client() as client,
    ):
        EXAMPLES_FILE.write_text(json.dumps(told(client), indent=1) + "\n", encoding="ascii")


if __name__ == "__main__":
    _write()
