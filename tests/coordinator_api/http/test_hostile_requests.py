"""Callers that send nothing, too slowly, too much, or never read: the others are served, and the memory comes back."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from tests.coordinator_api.group_members import HttpMember, new_group, problem, settle
from tests.coordinator_api.http.hostile_callers import (
    Bystander,
    Crowd,
    beside,
    held_fetch,
    memory_bytes,
    metric,
    raise_own_limit,
    wait_for,
)
from tests.coordinator_api.service_process import ServiceProcess

OPEN_FILES = 1_024
MEBIBYTE = 1_048_576


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """As `ulimit -Sn 1024; assignor serve` starts it, with less patience than usual."""
    directory = tmp_path_factory.mktemp("hostile")
    flags = ("--request-timeout-ms", "3000", "--group-initial-rebalance-delay-ms", "0")
    with ServiceProcess(directory, *flags, open_files=OPEN_FILES) as process:
        yield process
        assert process.stop() == 0
    assert [line for line in process.log if "Traceback" in line or "uvicorn" in line] == []


@pytest.fixture(scope="module")
def bystander(service: ServiceProcess) -> Bystander:
    raise_own_limit(4 * OPEN_FILES)
    return Bystander(service)


@pytest.mark.parametrize(
    "greeting, trickle",
    [
        (b"", b""),
        (b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-A: ", b"a"),
        pytest.param(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-A: ", b"\r\nX-B: b", marks=pytest.mark.long),
        pytest.param(b"\r\n", b"\r\n", marks=pytest.mark.long),
    ],
    ids=["silent", "one header", "many headers", "empty lines"],
)
def test_should_serve_others_beside_more_callers_without_a_request_than_there_are_files(
    bystander: Bystander, greeting: bytes, trickle: bytes
) -> None:
    with Crowd(bystander.url, OPEN_FILES + 76, greeting) as crowd:
        bystander.calls(5)
        crowd.send(trickle)
        bystander.calls()


@pytest.mark.long
def test_should_serve_others_beside_bodies_that_never_end(bystander: Bystander) -> None:
    begun = b"PUT /v1/groups/g HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"
    with Crowd(bystander.url, OPEN_FILES + 76, begun) as crowd, beside(lambda: crowd.wait_until_cut(sends=b" ")):
        bystander.calls()


def answers_to(bystander: Bystander, sent: bytes) -> list[bytes]:
    """The status of each answer until the service closes the connection."""
    with Crowd(bystander.url, 1) as crowd:
        caller = crowd.sockets[0]
        caller.settimeout(60)
        caller.sendall(sent)
        read = b"".join(iter(lambda: caller.recv(65_536), b""))
    return re.findall(rb"HTTP/1\.1 (\d{3}) ", read)


ALIVE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
NOWHERE = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def test_should_let_a_caller_send_on_who_was_answered_before_his_body_was_read(bystander: Bystander) -> None:
    """He may look for the answer only when all is sent."""
    body = b"x" * 4 * MEBIBYTE
    head = b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)

    assert answers_to(bystander, head + body + LAST) == [b"404", b"200"]


def test_should_answer_all_requests_that_were_sent_ahead_in_their_order(bystander: Bystander) -> None:
    statuses = answers_to(bystander, (ALIVE * 9 + NOWHERE) * 200 + LAST)

    assert statuses == ([b"200"] * 9 + [b"404"]) * 200 + [b"200"]


def test_should_read_no_more_from_a_caller_that_is_far_ahead(bystander: Bystander) -> None:
    """What it sends stays with it, because the window of its connection is full."""
    memory = memory_bytes(bystander.service.process.pid)
    sent = 0
    with Crowd(bystander.url, 1, held_fetch(bystander.member)) as crowd:
        wait_for(lambda: metric(bystander.client, "assignor_long_polls") == 1)
        (caller,) = crowd.sockets
        with suppress(BlockingIOError):
            while sent < 256 * MEBIBYTE:
                sent += caller.send(ALIVE * 10_000)
                bystander.calls(1)  # the service has turned to what came before
        assert memory_bytes(bystander.service.process.pid) - memory < 50 * MEBIBYTE

    assert sent < 256 * MEBIBYTE


def million(form: bytes) -> bytes:
    return b",".join(form % number for number in range(1_000_000))


FIELD, TASK = b'"f%d":1', b'"0_%d":1'
BEAT = "/members/m/heartbeat"
BEGUN, OF_M = b'{"generation_id":1,', b'{"members":{"m":{"generation_id":1,"task_offset_sums":{'
HOSTILE_BODIES: dict[str, tuple[str, str, Callable[[], bytes], int]] = {
    "a million unknown fields": ("POST", BEAT, lambda: BEGUN + million(FIELD) + b"}", 413),
    "a million tasks": ("POST", BEAT, lambda: b'{"generation_id":1,"task_offset_sums":{' + million(TASK) + b"}}", 413),
    "as many unknown fields as fit": ("POST", BEAT, lambda: BEGUN + million(FIELD)[:60_000] + b'":1}', 422),
    "as many tasks as fit": ("POST", "/heartbeat", lambda: OF_M + million(TASK)[:1_000_000] + b'":1}}}}', 422),
    "a process with a million tasks": ("POST", "/heartbeat", lambda: OF_M + million(TASK) + b"}}}}", 413),
    "a deep subscription": ("POST", "/subscriptions", lambda: b'{"member_id":' + b"[" * 1_000_000, 422),
    "a long number": ("POST", "/subscriptions", lambda: b'{"session_timeout_ms":' + b"9" * 1_000_000 + b"}", 422),
    "a long subscription": ("POST", "/subscriptions", lambda: b" " * (MEBIBYTE + 1), 413),
    "a deep definition": ("PUT", "", lambda: b'{"assignor":' * 2_000_000, 422),
    "ten million values": ("PUT", "", lambda: b'{"a":[' + b"0," * 10_000_000 + b"0]}", 413),
}
"""Name to method, path below the group, body, and the status that it gets."""


@pytest.mark.parametrize("name", HOSTILE_BODIES)
def test_should_refuse_a_hostile_body_fast_and_give_its_memory_back(bystander: Bystander, name: str) -> None:
    method, path, made, status = HOSTILE_BODIES[name]
    body = made()
    service = bystander.service
    memory = memory_bytes(service.process.pid)
    with service.client() as caller:
        for _ in range(6):  # more than the memory below, so a body that is kept is found
            headers = {"Content-Type": "application/json"}
            response = caller.request(method, bystander.member.path + path, content=body, headers=headers)
            assert problem(response)[0] == status
        bystander.calls(2)

    wait_for(lambda: memory_bytes(service.process.pid) - memory < 64 * MEBIBYTE)


def test_should_not_describe_a_group_for_callers_who_have_hung_up(bystander: Bystander) -> None:
    group_id = new_group(bystander.client, partitions=5_000)
    member = HttpMember(bystander.client, group_id)
    member.subscribe()
    settle(member)
    callers, path = 200, f"/v1/groups/{group_id}"
    answered = 'assignor_http_requests_total{method="GET",route="/v1/groups/{group}",status="%s"}'

    def count(status: str) -> float:
        return metric(bystander.client, answered % status)

    made, given_up = count("200"), count("0")
    with Crowd(bystander.url, callers, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()):
        wait_for(lambda: count("200") > made)
    wait_for(lambda: count("200") - made + count("0") - given_up == callers)

    assert count("200") - made < callers / 2
