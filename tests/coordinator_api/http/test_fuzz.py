"""No input leads to a 5xx: random requests and valid ones with one thing changed are served or refused."""

import base64
import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.coordinator_api.group_members import HttpMember, definition, new_group, settled_member, subscription
from tests.coordinator_api.http.changed_documents import RECORDINGS, one_change
from tests.coordinator_api.service_process import ServiceProcess

one_client = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
"""All cases of a test share its client."""


def served_or_refused(response: httpx.Response, case: object) -> None:
    """Success, or a problem document that says what is wrong; 501 is only for what a later release brings."""
    told = f"{response.status_code} {response.text[:500]} for {case!r}"
    assert response.status_code < 500, told
    if response.status_code >= 400:
        assert response.headers["content-type"] == "application/problem+json", told
        assert response.json()["status"] == response.status_code, told


def post(client: httpx.Client, method: str, path: str, document: object) -> httpx.Response:
    body = json.dumps(document).encode("ascii")
    return client.request(method, path, content=body, headers={"Content-Type": "application/json"})


@pytest.fixture(scope="module")
def member(service: ServiceProcess) -> HttpMember:
    client = service.client()
    return settled_member(client)


@one_client
@given(st.data())
def test_should_survive_a_definition_with_one_thing_changed(client: httpx.Client, data: st.DataObject) -> None:
    document = one_change(data, definition())

    served_or_refused(post(client, "PUT", "/v1/groups/fuzzed", document), document)


@one_client
@given(st.data())
def test_should_survive_a_recording_with_one_thing_changed(client: httpx.Client, data: st.DataObject) -> None:
    document = one_change(data, data.draw(st.sampled_from(RECORDINGS)))

    path = data.draw(st.sampled_from(["/v1/assign", "/v1/simulate?max_rounds=5&appended_records_per_s=3"]))

    served_or_refused(post(client, "POST", path, document), document)


@one_client
@given(st.data())
def test_should_survive_changed_member_bodies(client: httpx.Client, member: HttpMember, data: st.DataObject) -> None:
    raw = bytearray(subscription(member.process_id, {"0_0": -2}, (0,), 1))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    joined: dict[str, Any] = {
        "session_timeout_ms": 500,
        "rebalance_timeout_ms": 500,
        "subscription": base64.b64encode(raw).decode(),
        "client_id": "c",
        "group_instance_id": "i",
        "incarnation": 1,
    }
    beat = {"generation_id": 1, "task_offset_sums": {"0_0": 5}, "group_instance_id": "i"}
    group_id = new_group(client)
    for path, body in (
        (f"/v1/groups/{group_id}/subscriptions", data.draw(st.sampled_from([joined, one_change(data, joined)]))),
        (f"{member.path}/members/{member.member_id}/heartbeat", one_change(data, beat)),
    ):
        served_or_refused(post(client, "POST", path, body), body)
