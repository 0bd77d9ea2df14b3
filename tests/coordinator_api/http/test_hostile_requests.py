"""Callers that send nothing, too slowly, too much, or never read: the others are served, and the memory comes back."""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.checkout import ROOT
from tests.coordinator_api import held_assignor
from tests.coordinator_api.group_members import HttpMember, new_group, problem, settle
from tests.coordinator_api.http.hostile_callers import (
    Bystander,
    Crowd,
    beside,
    memory_bytes,
    raise_own_limit,
    wait_for,
)
from tests.coordinator_api.service_process import ServiceProcess

OPEN_FILES = 1_024
HOLD_FILE = "hold"
MEBIBYTE = 1_048_576


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """As `ulimit -n 1024; assignor serve` starts it, with less patience than usual."""
    directory = tmp_path_factory.mktemp("hostile")
    flags = (
        *("--request-headers-timeout-ms", "3000"),
        *("--request-timeout-ms", "3000"),
        *("--group-initial-rebalance-delay-ms", "0"),
        *("--computation-max-count", "1"),
        *("--task-assignor-classes", held_assignor.CLASS_PATH),
    )
    environment = {"PYTHONPATH": str(ROOT), held_assignor.HOLD_FILE_VARIABLE: str(directory / HOLD_FILE)}
    with ServiceProcess(directory, *flags, environment=environment, open_files=OPEN_FILES) as process:
        yield process
        assert process.stop() == 0
    assert [line for line in process.log if "Traceback" in line or "uvicorn" in line] == []


@pytest.fixture(scope="module")
def bystander(service: ServiceProcess) -> Bystander:
    raise_own_limit(4 * OPEN_FILES)
    return Bystander(service)


def metric(client: httpx.Client, name: str) -> float:
    for line in client.get("/metrics").text.splitlines():
        if line.startswith(f"{name} "):
            return float(line.rpartition(" ")[2])
    return 0.0


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
    with (
        Crowd(bystander.url, OPEN_FILES + 76, greeting) as crowd,
        beside(lambda: crowd.wait_until_cut(sends=trickle)),
    ):
        bystander.calls()


@pytest.mark.long
def test_should_serve_others_beside_bodies_that_never_end(bystander: Bystander) -> None:
    begun = b"PUT /v1/groups/g HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"
    with Crowd(bystander.url, OPEN_FILES + 76, begun) as crowd, beside(lambda: crowd.wait_until_cut(sends=b" ")):
        bystander.calls()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /livez HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"GET /" + b"y" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 100_000,
    ],
    ids=["many", "long", "long address", "without end"],
)
def test_should_refuse_headers_that_are_too_large(bystander: Bystander, head: bytes) -> None:
    with Crowd(bystander.url, 1) as crowd:
        caller = crowd.sockets[0]
        caller.settimeout(60)
        caller.sendall(head)
        answer = b"".join(iter(lambda: caller.recv(65_536), b""))

    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b"content-type: application/problem+json" in answer


def test_should_refuse_what_is_no_http(bystander: Bystander) -> None:
    with Crowd(bystander.url, 1, b"\x16\x03\x01 hello\r\n\r\n") as crowd:
        caller = crowd.sockets[0]
        caller.settimeout(60)
        answer = b"".join(iter(lambda: caller.recv(65_536), b""))

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/problem+json" in answer


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


def test_should_answer_requests_in_order_that_do_not_wait_for_answers(bystander: Bystander) -> None:
    assert answers_to(bystander, (ALIVE + NOWHERE) * 500 + LAST) == [b"200", b"404"] * 500 + [b"200"]


@pytest.mark.parametrize(
    "broken, status",
    [
        (b"\x16\x03\x01\r\n\r\n", b"400"),
        (b"POST /v1/assign HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n", b"431"),
    ],
    ids=["no request", "no chunk", "too many headers"],
)
@pytest.mark.parametrize("before", [0, 1, 3, 100])
def test_should_answer_what_came_before_a_broken_request_and_nothing_after_it(
    bystander: Bystander, broken: bytes, status: bytes, before: int
) -> None:
    assert answers_to(bystander, ALIVE * before + broken + ALIVE * 10) == [b"200"] * before + [status]


@pytest.mark.parametrize(
    "size, length, status",
    [(1, 20_000, b"400"), (1, 5_000, b"422"), (4, 20_000, b"422")],
    ids=["far", "a while", "all"],
)
def test_should_take_in_a_body_of_small_chunks_unless_it_is_hardly_more_than_their_frames(
    bystander: Bystander, size: int, length: int, status: bytes
) -> None:
    body = b'{"instances": []}'.ljust(length)
    head = b"POST /v1/assign HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"".join(b"%x\r\n%s\r\n" % (size, body[at : at + size]) for at in range(0, length, size))

    assert answers_to(bystander, head + chunks + b"0\r\n\r\n") == [status]


def test_should_let_a_caller_send_on_who_was_answered_before_his_body_was_read(bystander: Bystander) -> None:
    """He may look for the answer only when all is sent."""
    body = b"x" * 4 * MEBIBYTE
    head = b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)

    assert answers_to(bystander, head + body + LAST) == [b"404", b"200"]


def test_should_answer_a_caller_once_who_is_refused_before_his_body_breaks(bystander: Bystander) -> None:
    """What it logs is looked at when all tests of this service are over."""
    head = b"POST /v1/assign HTTP/1.1\r\nHost: evil.example\r\nTransfer-Encoding: chunked\r\n\r\n"
    with Crowd(bystander.url, 1, head) as crowd:
        caller = crowd.sockets[0]
        caller.settimeout(60)
        read = caller.recv(65_536)
        caller.sendall(b"zz\r\n")
        with suppress(ConnectionResetError):
            read += b"".join(iter(lambda: caller.recv(65_536), b""))

    assert re.findall(rb"HTTP/1\.1 (\d{3}) ", read) == [b"403"]
    assert answers_to(bystander, head + b"zz\r\n") == [b"400"]


def test_should_answer_a_request_that_asks_for_another_protocol(bystander: Bystander) -> None:
    upgrade = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close, upgrade\r\nUpgrade: websocket\r\n\r\n"

    assert answers_to(bystander, upgrade) == [b"200"]


@pytest.mark.long
def test_should_cut_callers_who_do_not_read_their_answers(bystander: Bystander) -> None:
    """Each asks for some 20 MB in one go, of which the service holds one answer at a time."""
    name = 'assignor_connections_cut_total{reason="reader"}'
    before = metric(bystander.client, name)
    memory = memory_bytes(bystander.service.process.pid)
    with Crowd(bystander.url, 50, b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 400):
        bystander.calls()
        wait_for(lambda: metric(bystander.client, name) - before == 50)

    assert memory_bytes(bystander.service.process.pid) - memory < 50 * MEBIBYTE


def test_should_answer_all_requests_that_were_sent_ahead_in_their_order(bystander: Bystander) -> None:
    statuses = answers_to(bystander, (ALIVE * 9 + NOWHERE) * 200 + LAST)

    assert statuses == ([b"200"] * 9 + [b"404"]) * 200 + [b"200"]


def test_should_not_make_requests_of_what_is_sent_ahead_of_a_held_one(bystander: Bystander) -> None:
    """As requests, these 80,000 would take more than 200 MB."""
    memory = memory_bytes(bystander.service.process.pid)
    with Crowd(bystander.url, 200, held_fetch(bystander.member) + ALIVE * 400):
        bystander.calls()
        wait_for(lambda: metric(bystander.client, "assignor_long_polls") == 200)
        assert memory_bytes(bystander.service.process.pid) - memory < 50 * MEBIBYTE

    if sys.platform == "linux":  # nowhere else is it known that a caller has gone who is far ahead
        wait_for(lambda: metric(bystander.client, "assignor_long_polls") == 0, patience_s=20)


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
HOSTILE_BODIES: dict[str, tuple[str, str, Callable[[], bytes], int]] = {
    "a million unknown fields": ("POST", BEAT, lambda: b'{"generation_id":1,' + million(FIELD) + b"}", 413),
    "a million tasks": (
        "POST",
        BEAT,
        lambda: b'{"generation_id":1,"task_offset_sums":{' + million(TASK) + b"}}",
        413,
    ),
    "as many unknown fields as fit": (
        "POST",
        BEAT,
        lambda: b'{"generation_id":1,' + million(FIELD)[:60_000] + b'":1}',
        422,
    ),
    "a process with a million tasks": (
        "POST",
        "/heartbeat",
        lambda: b'{"members":{"m":{"generation_id":1,"task_offset_sums":{' + million(TASK) + b"}}}}",
        413,
    ),
    "a process with as many tasks as fit": (
        "POST",
        "/heartbeat",
        lambda: (
            b'{"members":{"m":{"generation_id":1,"task_offset_sums":{'
            + (tasks := million(TASK))[: tasks.rindex(b",", 0, MEBIBYTE - 100)]
            + b"}}}}"
        ),
        422,
    ),
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
        for _ in range(3):
            response = caller.request(
                method,
                f"{bystander.member.path}{path}",
                content=body,
                headers={"Content-Type": "application/json"},
            )
            assert problem(response)[0] == status
        bystander.calls(2)

    wait_for(lambda: memory_bytes(service.process.pid) - memory < 64 * MEBIBYTE)


@pytest.mark.parametrize(
    "packed",
    [gzip.compress(b"") * 400_000, gzip.compress(b" " * 40 * MEBIBYTE), gzip.compress(b"{}")[:-4], b"\x1f\x8bnonsense"],
    ids=["empty members", "a bomb", "cut off", "nonsense"],
)
def test_should_refuse_hostile_gzip(bystander: Bystander, packed: bytes) -> None:
    response = bystander.client.put(
        f"{bystander.member.path}-other", content=packed, headers={"Content-Encoding": "gzip"}
    )

    assert problem(response)[0] in (413, 422)
    bystander.calls(2)


def test_should_not_go_on_computing_for_a_caller_who_has_hung_up(bystander: Bystander) -> None:
    """One computation at a time: while the first is under way, another caller gets a 429."""
    hold = bystander.service.directory / HOLD_FILE
    hold.touch()
    body = json.dumps(held_assignor.held_problem(bystander.member.process_id)).encode()
    request = b"POST /v1/assign HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    def status() -> int:
        return bystander.client.post("/v1/assign", json={}).status_code

    try:
        with Crowd(bystander.url, 1, request):
            bystander.calls(3)  # by then the request has been taken in, and the place is not free for the next one
            wait_for(lambda: status() == 429)
        wait_for(lambda: status() == 422)
    finally:
        hold.unlink()


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


def held_fetch(member: HttpMember) -> bytes:
    wanted = member.generation_id + 1
    path = f"{member.path}/members/{member.member_id}/assignment?min_generation={wanted}&wait_ms=60000"
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def test_should_make_room_by_the_connection_that_is_idle_longest_and_keep_the_busy_ones(tmp_path: Path) -> None:
    flags = ("--max-connections", "5", "--group-initial-rebalance-delay-ms", "0")
    with ServiceProcess(tmp_path, *flags) as service, service.client() as watcher:
        member = HttpMember(watcher, new_group(watcher))
        member.subscribe()
        settle(member)
        with (
            Crowd(service.url, 1, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n") as idle,
            Crowd(service.url, 3, held_fetch(member)) as busy,
        ):
            wait_for(lambda: metric(watcher, "assignor_long_polls") == 3)
            with Crowd(service.url, 1, held_fetch(member)) as fourth:
                idle.wait_until_cut()
                wait_for(lambda: metric(watcher, "assignor_long_polls") == 4)
                # takes the place of the watcher, who is the only idle one now
                with Crowd(service.url, 1, held_fetch(member)) as fifth:
                    refused = wait_for_refusal(service)
                    for connection in (*busy.sockets, *fourth.sockets, *fifth.sockets):
                        with pytest.raises(BlockingIOError):
                            connection.recv(1)

    assert problem(refused) == (503, "THROTTLING_QUOTA_EXCEEDED")
    assert refused.headers["retry-after"] == "1"


def wait_for_refusal(service: ServiceProcess) -> httpx.Response:
    """Newcomers are let in for as long as some connection is idle."""
    while True:
        with service.client() as newcomer:
            response = newcomer.get("/livez")
        if response.status_code != 200:
            return response


def test_should_bound_the_connections_of_one_address(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path, "--max-connections-per-ip", "2") as service:
        with Crowd(service.url, 2), service.client() as third:
            refused = third.get("/livez")
        with service.client() as later:
            wait_for(lambda: later.get("/livez").status_code == 200)

    assert problem(refused) == (429, "THROTTLING_QUOTA_EXCEEDED")
    assert refused.headers["retry-after"] == "1"
