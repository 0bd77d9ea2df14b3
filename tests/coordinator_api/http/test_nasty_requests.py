"""Requests that no client of ours sends, byte by byte: each is refused with a problem, at once, and nothing is logged
as unexpected.
"""

import json
from http.client import HTTPResponse

import httpx
import pytest

from tests.coordinator_api.group_members import HttpMember, definition, problem, settled_member
from tests.coordinator_api.http.hostile_callers import connect
from tests.coordinator_api.service_process import ServiceProcess

JSON = b"Content-Type: application/json\r\n"


@pytest.fixture(scope="module")
def member(service: ServiceProcess) -> HttpMember:
    return settled_member(service.client(), session_timeout_ms=600_000)


def request(start: bytes, body: bytes = b"", headers: bytes = JSON, length: bytes | None = None) -> bytes:
    """`start`: method and address. `length`: the header, if it is not what it should be."""
    announced = b"Content-Length: %d\r\n" % len(body) if length is None else length
    return start + b" HTTP/1.1\r\nHost: localhost\r\n" + headers + announced + b"\r\n" + body


def ask(service: ServiceProcess, raw: bytes, method: str = "GET") -> httpx.Response:
    """The answer to these bytes. Raises TimeoutError."""
    with connect(service.url) as connection:
        connection.sendall(raw)
        answer = HTTPResponse(connection, method=method)
        answer.begin()
        return httpx.Response(answer.status, headers=answer.getheaders(), content=answer.read())


BEAT = b"POST {me}/heartbeat"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
LONG = b"x" * 10_000
INFINITE = json.dumps(definition(configs={"topic.x": 7})).replace("7}", "1e999}").encode()

OF_MEMBERS: dict[str, tuple[bytes, int]] = {
    "a byte order mark": (request(BEAT, b'\xef\xbb\xbf{"generation_id":1}'), 422),
    "no content type": (request(BEAT, b'{"generation_id":1}', b""), 422),
    "a form": (request(BEAT, b'{"generation_id":1}', b"Content-Type: multipart/form-data; boundary=x\r\n"), 422),
    "a content type of no letters": (request(BEAT, b'{"generation_id":1}', b"Content-Type: \xff\xfe\r\n"), 422),
    "compressed, it says": (request(BEAT, b'{"generation_id":1}', JSON + b"Content-Encoding: br\r\n"), 415),
    "a leave that is no object": (request(b"DELETE {me}", b"[]"), 422),
    "a compressed leave": (request(b"DELETE {me}", b"{}", JSON + b"Content-Encoding: br\r\n"), 415),
    "a wait of -1": (request(b"GET {me}/assignment?wait_ms=-1"), 422),
    "a wait of 30,000 digits": (request(b"GET {me}/assignment?wait_ms=" + b"9" * 30_000), 422),
    "a wait in Arabic": (request(b"GET {me}/assignment?wait_ms=%d9%a1"), 422),
    "two waits": (request(b"GET {me}/assignment?wait_ms=0&wait_ms=x"), 422),
    "an instance of 10,000 characters": (request(b"GET {me}/assignment?group_instance_id=" + LONG), 422),
    "a member of 10,000 characters": (request(b"POST {group}/members/" + LONG + b"/heartbeat", b"{}"), 422),
    "a member with a slash": (request(b"POST {group}/members/a%2Fb/heartbeat", b'{"generation_id":1}'), 404),
    "a member with a NUL": (request(b"POST {group}/members/a%00b/heartbeat", b'{"generation_id":1}'), 404),
    "a member that is no UTF-8": (request(b"POST {group}/members/%ff/heartbeat", b'{"generation_id":1}'), 404),
}

OF_GROUPS: dict[str, tuple[bytes, int]] = {
    "a slash": (request(b"GET /v1/groups/a%2Fb"), 404),
    "a slash at the end": (request(b"GET /v1/groups/"), 404),
    "a NUL": (request(b"PUT /v1/groups/a%00b", b"{}"), 422),
    "a line end": (request(b"GET /v1/groups/a%0a"), 422),
    "10,000 characters": (request(b"PUT /v1/groups/" + LONG, b"{}"), 422),
    "dots": (request(b"PUT /v1/groups/..", b"{}"), 422),
    "letters beyond ASCII": (request(b"GET /v1/groups/%c3%a4"), 422),
    "a form": (request(b"POST /v1/assign", b"a=b", b"Content-Type: application/x-www-form-urlencoded\r\n"), 422),
    "a compressed definition": (request(b"PUT {group}", b"{}", JSON + b"Content-Encoding: gzip\r\n"), 415),
    "a deep note": (request(b"POST /v1/assign", b'{"meta":' + b'{"a":' * 980 + b"1" + b"}" * 981), 422),
    "an infinite config": (request(b"PUT {group}", INFINITE), 422),
    "a generation of 10,000 digits": (request(b"GET {group}/rebalances/" + b"9" * 10_000), 422),
    "a task of 200 digits": (request(b"GET {group}/rebalances/1/explain?task=0_" + b"9" * 200), 422),
    "an empty task": (request(b"GET {group}/rebalances/1/explain?task="), 422),
}

OF_HTTP: dict[str, tuple[bytes, int]] = {
    "OPTIONS": (request(b"OPTIONS {group}"), 405),
    "OPTIONS of everything": (request(b"OPTIONS *"), 404),
    "CONNECT": (request(b"CONNECT localhost:80"), 400),
    "another method": (request(b"PATCH {me}/heartbeat", b"{}"), 405),
    "a method that nobody knows": (request(b"FOO {group}"), 400),
    "HTTP/1.0": (b"POST {me}/heartbeat HTTP/1.0\r\n" + JSON + b"Content-Length: 2\r\n\r\n{}", 422),
    "two lengths": (request(BEAT, b"{}", JSON + b"Content-Length: 3\r\n"), 400),
    "a length twice": (request(BEAT, b"{}", JSON + b"Content-Length: 2\r\n"), 400),
    "a length and chunks": (request(BEAT, b"2\r\n{}\r\n0\r\n\r\n", JSON + CHUNKED), 400),
    "a length of -1": (request(BEAT, b"{}", length=b"Content-Length: -1\r\n"), 400),
    "a length of 2 ** 63 - 1": (request(BEAT, b"{}", length=b"Content-Length: 9223372036854775807\r\n"), 413),
    "chunks of half a document": (request(BEAT, b'5\r\n{"gen\r\n0\r\n\r\n', length=CHUNKED), 422),
    "a chunk of no size": (request(BEAT, b"zz\r\n{}\r\n0\r\n\r\n", length=CHUNKED), 400),
    "a NUL in a header": (b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n", 400),
    "a space in the address": (b"GET /v1/groups/a b HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "a body for nothing": (request(b"GET /livez", b"x" * 2_000), 413),
}


def served_still(member: HttpMember, service: ServiceProcess) -> bool:
    return member.heartbeat().status_code == 200 and not any("unexpected_error" in line for line in service.log)


@pytest.mark.parametrize(
    "raw, status",
    [
        pytest.param(raw, status, id=f"{kind}: {name}")
        for kind, cases in (("member", OF_MEMBERS), ("group", OF_GROUPS), ("HTTP", OF_HTTP))
        for name, (raw, status) in cases.items()
    ],
)
def test_should_refuse_with_a_problem(service: ServiceProcess, member: HttpMember, raw: bytes, status: int) -> None:
    me = f"{member.path}/members/{member.member_id}"
    addressed = raw.replace(b"{me}", me.encode()).replace(b"{group}", member.path.encode())

    refused = ask(service, addressed)

    # uvicorn itself answers what is no HTTP request
    assert (refused.status_code if status == 400 else problem(refused)[0]) == status
    assert served_still(member, service)


def test_should_answer_head_like_any_other_missing_method(service: ServiceProcess, member: HttpMember) -> None:
    refused = ask(service, request(b"HEAD " + member.path.encode()), "HEAD")

    assert (refused.status_code, refused.headers["content-type"]) == (405, "application/problem+json")
