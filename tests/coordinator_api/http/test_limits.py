"""What one caller must not do to the others: bodies, members and held requests have bounds."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.checkout import ROOT
from tests.coordinator_api import held_assignor
from tests.coordinator_api.group_members import HttpMember, definition, new_group, problem, settled_member
from tests.coordinator_api.http.hostile_callers import connect, held, held_fetch, metric, wait_for
from tests.coordinator_api.service_process import ServiceProcess
from tests.processes import children

MAX_BYTES = 16_384
HOLD_FILE = "hold"


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    flags = (
        *("--request-max-bytes", str(MAX_BYTES)),
        *("--request-timeout-ms", "700"),
        *("--longpoll-max-count", "1"),
        *("--longpoll-max-wait-ms", "1000"),
        *("--group-initial-rebalance-delay-ms", "0"),
        *("--group-max-partitions", "1000"),
        *("--computation-max-count", "1"),
        *("--task-assignor-classes", held_assignor.CLASS_PATH),
    )
    directory = tmp_path_factory.mktemp("narrow")
    environment = {"PYTHONPATH": str(ROOT), held_assignor.HOLD_FILE_VARIABLE: str(directory / HOLD_FILE)}
    with ServiceProcess(directory, *flags, environment=environment) as process:
        yield process


@pytest.fixture
def narrow_client(narrow: ServiceProcess) -> Iterator[httpx.Client]:
    with narrow.client() as http:
        yield http


def test_should_take_a_body_of_just_the_limit_and_none_that_is_larger(narrow_client: httpx.Client) -> None:
    body = json.dumps(definition()).encode().ljust(MAX_BYTES)
    announced = narrow_client.put("/v1/groups/just-right", content=body + b" ")
    chunked = narrow_client.put("/v1/groups/just-right", content=iter([body, b" "]))

    assert problem(announced) == problem(chunked) == (413, "MESSAGE_TOO_LARGE")
    assert narrow_client.put("/v1/groups/just-right", content=body).status_code == 201


def test_should_give_up_on_a_body_that_does_not_arrive(narrow: ServiceProcess) -> None:
    with connect(narrow.url) as connection:
        connection.sendall(b"PUT /v1/groups/g HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code": "REQUEST_TIMED_OUT"' in answer


@contextmanager
def one_held(narrow: ServiceProcess, client: httpx.Client) -> Iterator[tuple[HttpMember, httpx.Client]]:
    """A member whose fetch is held, as the only request there may be, and a client that is free."""
    member = settled_member(client)
    with narrow.client() as other:
        with held(other, lambda: member.fetch(min_generation=member.generation_id + 1)) as fetch:
            yield member, other
        assert fetch.result().status_code == 204


def test_should_refuse_to_hold_one_request_too_many(narrow: ServiceProcess, narrow_client: httpx.Client) -> None:
    with one_held(narrow, narrow_client) as (member, other):
        path = f"{member.path}/members/{member.member_id}/assignment?min_generation={member.generation_id + 1}"
        refused = other.get(f"{path}&wait_ms=100")
        not_held = other.get(path)

    assert problem(refused) == (429, "THROTTLING_QUOTA_EXCEEDED")
    assert refused.headers["retry-after"] == "1"
    assert not_held.status_code == 204


def test_should_hold_no_heartbeat_above_the_limit(narrow: ServiceProcess, narrow_client: httpx.Client) -> None:
    with one_held(narrow, narrow_client) as (member, other):
        member.client = other
        first = member.process_heartbeat()
        second = member.process_heartbeat(first.json()["news"], wait_ms=1_000)

    assert (second.status_code, second.json()) == (200, first.json())


def test_should_end_a_held_request_whose_caller_hung_up(narrow: ServiceProcess, narrow_client: httpx.Client) -> None:
    with connect(narrow.url) as connection:
        connection.sendall(held_fetch(settled_member(narrow_client)))
        wait_for(lambda: metric(narrow_client, "assignor_long_polls") == 1)
    wait_for(lambda: metric(narrow_client, "assignor_long_polls") == 0)


def test_should_cut_a_wait_down_to_the_longest_allowed(narrow_client: httpx.Client) -> None:
    member = settled_member(narrow_client)

    assert member.fetch(wait_ms=86_400_000, min_generation=member.generation_id + 1).status_code == 204


def _events(partitions: int) -> dict[str, object]:
    """The cluster of a definition, with so many partitions of its input topic."""
    return {"brokers": [], "topics": {"events": {"partitions": partitions, "replicas": None, "leaders": None}}}


_NOTHING: dict[str, object] = {"repartition_sink_topics": [], "stores": []}
_WRITER = {"id": 0, "source_topics": ["events"], "repartition_source_topics": [], "sink_topics": ["between"]}
_BETWEEN = {"repartition_source_topics": [{"name": "between", "partitions": None}]}
_READER = {"id": 1, "source_topics": ["between"], **_BETWEEN, "sink_topics": []}
_TWO = [{**_NOTHING, **_WRITER}, {**_NOTHING, **_READER}]
_MANY = [{**definition()["topology"]["subtopologies"][0], "id": number} for number in range(1_001)]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"cluster": _events(1_001)}, "1005 partitions are more than group.max.partitions, 1000"),
        # each of the two subtopologies has 501, because the second reads what the first writes
        (
            {"cluster": _events(501), "topology": {"subtopologies": _TWO, "copartition_groups": []}},
            "1002 tasks are more than group.max.partitions, 1000",
        ),
        ({"topology": {"subtopologies": _MANY, "copartition_groups": []}}, "1001 are more than group.max.subtopolog"),
    ],
)
def test_should_refuse_a_document_that_asks_for_very_much(
    narrow: ServiceProcess, client: httpx.Client, changes: dict[str, Any], why: str
) -> None:
    many = definition(**changes)
    named = {"format": "rebalance/1", "id": "many", "group_id": "many", "generation_id": 1, "now_ms": 1}
    rebalance = {**named, "source": "kafka", "input": {**many, "leader_process_id": None, "members": {}}}
    bodies = {"PUT /v1/groups/many": many, "POST /v1/assign": rebalance, "POST /v1/simulate": rebalance}
    with narrow.client() as narrow_client:
        for call, body in bodies.items():
            method, path = call.split()
            answer = (client if len(str(body)) > MAX_BYTES else narrow_client).request(method, path, json=body)
            assert problem(answer) == (422, "INVALID_REQUEST"), call
            assert why in answer.json()["detail"]


@pytest.fixture
def hold(narrow: ServiceProcess) -> Iterator[Path]:
    """The assignor waits for this file to go away, in another process, which tells nobody but the file."""
    file = narrow.directory / HOLD_FILE
    file.write_text("")
    yield file
    file.unlink(missing_ok=True)


def test_should_refuse_a_computation_too_many(narrow: ServiceProcess, narrow_client: httpx.Client, hold: Path) -> None:
    member = settled_member(narrow_client)
    asked = held_assignor.held_problem(member.process_id)
    answers: list[httpx.Response] = []
    running = threading.Thread(target=lambda: answers.append(narrow_client.post("/v1/assign", json=asked)))

    with narrow.client() as other:
        running.start()
        wait_for(lambda: held_assignor.holds(hold))
        refused = other.post("/v1/assign", json={})
        assert problem(refused) == (429, "THROTTLING_QUOTA_EXCEEDED")
        member.client = other
        assert member.heartbeat().status_code == 200
        hold.unlink()
        running.join(30)

    assert refused.headers["retry-after"] == "1"
    assert answers[0].json()["output"]["clients"] == {member.process_id: {"active": ["0_0"], "standby": []}}


def test_should_end_an_abandoned_computation(narrow: ServiceProcess, narrow_client: httpx.Client, hold: Path) -> None:
    body = json.dumps(held_assignor.held_problem()).encode()
    with connect(narrow.url) as caller:
        head = b"POST /v1/assign HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
        caller.sendall(head + body)
        wait_for(lambda: held_assignor.holds(hold))
        assert problem(narrow_client.post("/v1/assign", json={})) == (429, "THROTTLING_QUOTA_EXCEEDED")
    # the held computation would go on for ever, and only one is allowed
    wait_for(lambda: problem(narrow_client.post("/v1/assign", json={})) == (422, "INVALID_REQUEST"))


@pytest.mark.parametrize("line", ["PUT /v1/groups/hung-up", "POST /v1/assign", "POST /v1/simulate"])
def test_should_keep_no_process_of_who_hung_up(narrow: ServiceProcess, narrow_client: httpx.Client, line: str) -> None:
    head = f"{line} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n"
    for _ in range(30):
        with connect(narrow.url) as caller:
            caller.sendall(head.encode() + b'{"a":1}')
    new_group(narrow_client)  # asks for its worker after those callers did
    workers = [child for server in children(narrow.process.pid) for child in children(server)]
    assert len(workers) <= 3 + 4, "the places for one computation, two readers and at most four rebalances"


@pytest.mark.parametrize(
    "method, path, status",
    [
        ("GET", "/v1", 404),
        ("GET", "/v2/groups", 404),
        ("GET", "/v1/groups/g/nothing", 404),
        ("POST", "/v1/groups", 405),
        ("PATCH", "/v1/groups/g", 405),
        ("GET", "/v1/assign", 405),
        ("PUT", "/livez", 405),
    ],
)
def test_should_answer_unknown_calls_with_problems(client: httpx.Client, method: str, path: str, status: int) -> None:
    response = client.request(method, path)

    assert problem(response) == (status, "RESOURCE_NOT_FOUND" if status == 404 else "INVALID_REQUEST")
    assert status == 404 or response.headers["allow"]


def test_should_name_every_method_of_an_address(client: httpx.Client) -> None:
    assert client.request("OPTIONS", "/v1/groups/g").headers["allow"] == "DELETE, GET, PUT"
    assert client.request("PUT", "/v1/groups/g/rebalances").headers["allow"] == "GET, POST"
