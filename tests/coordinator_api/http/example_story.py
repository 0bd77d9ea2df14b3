"""The examples of the OpenAPI document, made by a real service: what is sent to it in one story, and what it answers.

`python -m tests.coordinator_api.http.example_story` writes them anew.
"""

from __future__ import annotations

import base64
import json
import re
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import httpx

from coordinator_api.http.openapi import EXAMPLES_FILE
from tests.coordinator_api.group_members import definition, subscription
from tests.coordinator_api.held_rebalance import held_rebalance
from tests.coordinator_api.reported_rebalances import reported
from tests.coordinator_api.service_process import ServiceProcess

GROUP, ANOTHER = "words", "orders"
ANOTHER_PROCESS_ID = "3f0c2b1e-6c1d-4a53-9a43-2f1f5e6b7a11"
PROCESS_ID = "3f0c2b1e-6c1d-4a53-9a43-2f1f5e6b7a10"
MEMBER_ID = "words-1-8d7f3a52-5a0b-4f3a-9a86-0a5f6c1d2e3b"
TIME_MS = 1_795_372_800_000
TOKEN = "asg_" + "x" * 43
FLAGS = ("--group-initial-rebalance-delay-ms", "0")

_TIMES = re.compile(r'("\w*_ms": )1[789]\d{11}\b')
_TOOK = re.compile(r'("took_ms": )\d+')

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


def told_anew(directory: Path) -> Examples:
    """By a service of its own, with a token, as whoever creates another one has it. It is killed and started again."""
    secret = {"ASSIGNOR_AUTH_TOKEN": "a-token-for-the-story"}
    token = secret["ASSIGNOR_AUTH_TOKEN"]
    with ServiceProcess(directory, *FLAGS, environment=secret) as service:
        with service.client(token) as client:
            examples, names = _lived(client)
            names[_left_behind(client)] = MEMBER_ID
        service.kill()
        with sqlite3.connect(service.directory / "assignor.sqlite3") as database:
            database.execute("UPDATE group_records SET body = 'x' WHERE group_id = ? AND sequence > 1", (GROUP,))
        database.close()
        service.start()
        with service.client(token) as client:
            story = Story(client)
            story.call("export_log", "GET", f"/v1/groups/{GROUP}/log")
            story.call("repair_log", "POST", f"/v1/groups/{GROUP}/repair")
    return _always_the_same({**examples, **story.examples}, names)


def _left_behind(client: httpx.Client) -> str:
    """A member of a group whose log will be damaged."""
    client.put(f"/v1/groups/{GROUP}", json=definition(2, application_id=GROUP))
    raw = base64.b64encode(subscription(PROCESS_ID)).decode("ascii")
    join = {"session_timeout_ms": 45_000, "rebalance_timeout_ms": 300_000, "subscription": raw}
    member_id = str(client.post(f"/v1/groups/{GROUP}/subscriptions", json=join).json()["member_id"])
    assigned = f"/v1/groups/{GROUP}/members/{member_id}/assignment"
    assert client.get(assigned, params={"min_generation": 1, "wait_ms": 60_000}).status_code == 200
    return member_id


def _lived(client: httpx.Client) -> tuple[Examples, dict[str, str]]:
    """From a group's declaration to its deletion; and what stands in the examples for its member's id and its token."""
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
    story.call("request_rebalance", "POST", f"{at}/rebalance", reason="the disk was replaced")
    story.call("pause_group", "POST", f"{at}/pause", reason="the database is being moved")
    story.call("resume_group", "POST", f"{at}/resume")
    story.call("set_rejoin_grace", "PUT", f"{at}/rejoin-grace", {"grace_ms": 60_000}, reason="a rolling restart")
    story.call("end_rejoin_grace", "DELETE", f"{at}/rejoin-grace")
    held = held_rebalance(client, (PROCESS_ID, ANOTHER_PROCESS_ID))[0].path
    limit = {"time_limit_ms": 600_000}
    story.call("hold_rebalances", "PUT", f"{held}/hold", limit, reason="no moves during the sale")
    story.call("show_hold", "GET", f"{held}/hold")
    story.call("approve_rebalance", "POST", f"{held}/approve", generation=2, reason="looks good")
    story.call("end_hold", "DELETE", f"{held}/hold")
    held = held_rebalance(client)[0].path
    story.call("discard_rebalance", "POST", f"{held}/discard", generation=2, reason="not during the sale")
    story.call("set_promotion", "PUT", f"{at}/promotion", reason="before a release")
    story.call("end_promotion", "DELETE", f"{at}/promotion")
    story.call("drain_group", "POST", f"{at}/drain", instance=str(PROCESS_ID), reason="the disk is replaced")
    story.call("show_drain", "GET", f"{at}/drain", instance=str(PROCESS_ID))
    story.call("end_instance_drain", "DELETE", f"{at}/drain", instance=str(PROCESS_ID))
    story.call("assign_once", "POST", "/v1/assign", recorded)
    story.call("forecast_once", "POST", "/v1/simulate", recorded, max_rounds=3)
    report = reported(ANOTHER, 7)
    story.call("report_rebalance", "POST", f"/v1/groups/{ANOTHER}/rebalances", report)
    story.call("report_rebalance", "POST", f"/v1/groups/{ANOTHER}/rebalances", report)
    story.call("leave", "DELETE", of_member, {})
    story.call("drain_group", "POST", f"{at}/drain")
    story.call("delete_group", "DELETE", at)
    story.call("delete_group", "DELETE", f"/v1/groups/{ANOTHER}")
    token = {"name": "words-instances", "right": "member", "groups": "words*", "expires": "P90D"}
    created = story.call("create_token", "POST", "/v1/tokens", token)
    story.call("list_tokens", "GET", "/v1/tokens")
    story.call("revoke_token", "DELETE", f"/v1/tokens/{token['name']}")
    return story.examples, {member_id: MEMBER_ID, created["token"]: TOKEN}


def _again() -> bytes:
    return subscription(PROCESS_ID, {"0_0": -2, "0_1": 880})


def _always_the_same(examples: Examples, names: dict[str, str]) -> Examples:
    """With one member id, token, time, size, digest and stored record, whenever the story was told."""
    text = json.dumps(examples)
    for name, same_name in names.items():
        text = text.replace(name, same_name)
    same: Examples = json.loads(_TOOK.sub(r"\g<1>250", _TIMES.sub(rf"\g<1>{TIME_MS}", text)))
    records = same["export_log"]["200"]["records"]
    records[0]["body"] = '{"type":"DefinitionChanged","revision":1,"input_json":"..."}'
    for record in records:  # of the bodies that were there before
        record["checksum"] = 3_735_928_559
    same["process_heartbeat"]["200"]["news"] = "5b0a9f4c1d2e3f60718293a4"
    same["describe_group"]["200"]["stored_bytes"] = 4_096
    same["service"]["200"]["release"] = same["show_version"]["200"]["version"] = "1.2.3"
    return same


def _write() -> None:
    with tempfile.TemporaryDirectory() as directory:
        EXAMPLES_FILE.write_text(json.dumps(told_anew(Path(directory)), indent=1) + "\n", encoding="ascii")


if __name__ == "__main__":
    _write()
