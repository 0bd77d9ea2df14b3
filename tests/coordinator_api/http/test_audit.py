"""The audit log: one line for each call that changes something or was refused to, by whom and why; none for reads."""

import itertools
import json
import os
import re
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from coordinator_api.http.audit import AuditLog
from coordinator_client.access.principals import Right
from tests.coordinator_api.cli.test_commands import assignor
from tests.coordinator_api.group_members import definition, new_group
from tests.coordinator_api.http.endpoints import AUDITED, PAGE_RIGHTS, RIGHTS
from tests.coordinator_api.http.tenants import CLIENT, Tenants, join_body, tenants
from tests.coordinator_api.reported_rebalances import reported
from tests.coordinator_api.service_process import ServiceProcess, run_command
from tests.coordinator_api.store.databases import execute

FIELDS = (
    *("at", "principal", "right", "client", "call", "group", "member", "token"),
    *("status", "code", "effect", "reason"),
)
PRINCIPALS = {
    "root": (Right.ADMIN, ""),
    "ann": (Right.OPERATOR, ""),
    "tom": (Right.MEMBER, "a-"),
    "eve": (Right.READER, ""),
}


class Audited:
    """A service and its audit log, from which each look takes the lines since the last one."""

    def __init__(self, service: Tenants, file: Path) -> None:
        self.service = service
        self._file = file
        self._seen = 0

    def lines(self) -> list[dict[str, Any]]:
        lines = self._file.read_bytes().splitlines(keepends=True)
        new, self._seen = lines[self._seen :], len(lines)
        assert all(line.endswith(b"\n") and line.isascii() for line in new)
        documents: list[dict[str, Any]] = [json.loads(line) for line in new]
        assert all(tuple(document) == FIELDS for document in documents)
        return documents

    def line(self) -> dict[str, Any]:
        """The only new one."""
        (line,) = self.lines()
        return line


@pytest.fixture
async def audited(tmp_path: Path) -> AsyncIterator[Audited]:
    file = tmp_path / "audit.log"
    async with tenants(tmp_path, PRINCIPALS, audit_log_file=file, group_max_size=2) as service:
        yield Audited(service, file)


def said(line: dict[str, Any], *fields: str) -> tuple[object, ...]:
    return tuple(line[field] for field in fields)


def test_should_have_every_call_that_changes_something() -> None:
    left_out = {call for call in (*RIGHTS, *PAGE_RIGHTS) if call[0] != "GET"} - AUDITED

    assert left_out == {
        ("POST", "/v1/groups/{group}/heartbeat"),
        ("POST", "/v1/groups/{group}/members/{member}/heartbeat"),
        ("POST", "/v1/assign"),
        ("POST", "/v1/simulate"),
    }


async def test_should_have_one_line_of_each_change_with_who_did_what(audited: Audited) -> None:
    ann, tom = [await audited.service.client(name) for name in ("ann", "tom")]
    done = []

    async def call(client: httpx.AsyncClient, method: str, path: str, body: object = None, **query: str) -> Any:
        answer = await client.request(method, path, json=body, params=query)
        line = audited.line()
        assert (line["status"], line["code"]) == (answer.status_code, "NONE")
        done.append(said(line, "principal", "right", "client", "call", "group", "effect", "reason"))
        return {**(answer.json() if answer.content else {}), "line": line}

    group, joins = "/v1/groups/{group}", "POST /v1/groups/{group}/subscriptions"
    await call(tom, "PUT", "/v1/groups/a-1", definition())
    await call(ann, "PUT", "/v1/groups/a-1", definition(partitions=5), reason='more "partitions"')
    first = await call(tom, "POST", "/v1/groups/a-1/subscriptions", join_body(group_instance_id="x", incarnation=1))
    second = await call(tom, "POST", "/v1/groups/a-1/subscriptions", join_body(group_instance_id="x", incarnation=2))
    other = definition(partitions=5)
    other["topology"]["subtopologies"][0]["stores"] = []
    await call(ann, "PUT", "/v1/groups/a-1", other, replace="true")
    left = await call(tom, "DELETE", f"/v1/groups/a-1/members/{second['member_id']}")
    await call(ann, "POST", "/v1/groups/a-1/drain", reason="moves to B")
    await call(tom, "POST", "/v1/groups/a-jvm/rebalances", reported("a-jvm", 7))
    await call(ann, "DELETE", "/v1/groups/a-1", reason="gone")

    assert [first["line"]["member"], second["line"]["member"]] == [first["member_id"], second["member_id"]]
    assert left["line"]["member"] == second["member_id"]
    assert done == [
        ("tom", "member", CLIENT, f"PUT {group}", "a-1", {"revision": 1, "created": True}, None),
        ("ann", "operator", CLIENT, f"PUT {group}", "a-1", {"revision": 2}, 'more "partitions"'),
        ("tom", "member", CLIENT, joins, "a-1", {"generation_id": 1, "created": True}, None),
        (
            *("tom", "member", CLIENT, joins, "a-1"),
            {"generation_id": second["generation_id"], "created": True, "replaced_member": first["member_id"]},
            None,
        ),
        ("ann", "operator", CLIENT, f"PUT {group}", "a-1", {"revision": 3, "replaced_topology": True}, None),
        ("tom", "member", CLIENT, "DELETE /v1/groups/{group}/members/{member}", "a-1", {}, None),
        ("ann", "operator", CLIENT, f"POST {group}/drain", "a-1", {}, "moves to B"),
        ("tom", "member", CLIENT, f"POST {group}/rebalances", "a-jvm", {"generation_id": 7, "created": True}, None),
        ("ann", "operator", CLIENT, f"DELETE {group}", "a-1", {}, "gone"),
    ]


async def test_should_say_of_a_lever_whom_it_is_about_and_what_it_was_set_to(audited: Audited) -> None:
    """A drain of one instance has the same address as that of the whole group."""
    ann, tom = [await audited.service.client(name) for name in ("ann", "tom")]
    await tom.put("/v1/groups/a-1", json=definition())
    await tom.post("/v1/groups/a-1/subscriptions", json=join_body())
    (member,) = (await ann.get("/v1/groups/a-1")).json()["members"]
    instance, path = {"instance": member["process_id"]}, "/v1/groups/a-1"
    audited.lines()

    await ann.post(f"{path}/drain", params=instance)
    await ann.post(f"{path}/drain", params={"member": "nobody"})
    await ann.delete(f"{path}/drain", params=instance)
    await ann.put(f"{path}/hold", json={"time_limit_ms": 60_000})
    await ann.put(f"{path}/rejoin-grace", json={"grace_ms": 5_000})
    await ann.delete(f"{path}/rejoin-grace")
    # of a group that is not there: what would have been set
    path = "/v1/groups/a-unknown"
    await ann.put(f"{path}/hold", json={"time_limit_ms": 60_000})
    await ann.put(f"{path}/rejoin-grace", json={"grace_ms": 5_000})
    await ann.delete(f"{path}/drain", params={"member": "nobody"})

    assert [(line["status"], line["effect"]) for line in audited.lines()] == [
        (204, instance),
        (404, {"member": "nobody"}),
        (204, instance),
        (204, {"time_limit_ms": 60_000}),
        (204, {"grace_ms": 5_000}),
        (204, {}),
        (404, {"time_limit_ms": 60_000}),
        (404, {"grace_ms": 5_000}),
        (404, {"member": "nobody"}),
    ]


async def test_should_tell_a_repair_from_its_plan_and_a_forced_deletion(audited: Audited, tmp_path: Path) -> None:
    ann, tom = [await audited.service.client(name) for name in ("ann", "tom")]
    assert (await tom.put("/v1/groups/a-1", json=definition())).status_code == 201
    execute(tmp_path / "store.sqlite3", "UPDATE group_records SET checksum = 1")
    audited.lines()
    for query in ("", "?execute=true"):
        assert (await ann.post(f"/v1/groups/a-1/repair{query}")).status_code == 200
    assert (await ann.delete("/v1/groups/a-1?force=true")).status_code == 204

    asked, done, deleted = [line["effect"] for line in audited.lines()]
    assert (asked["executed"], done["executed"], deleted) == (False, True, {"forced": True})


async def test_should_have_one_line_of_each_refusal(audited: Audited) -> None:
    callers = [await audited.service.client(name) for name in (None, "not-a-token", "eve")]
    for (method, route), name in itertools.product(sorted(AUDITED & RIGHTS.keys()), ("a-1", "heartbeat")):
        path = route.format(group=name, member=name, name=name)
        told = []
        for client in callers:
            answer = await client.request(method, path, content=b"{")
            line = audited.line()
            assert "not-a-token" not in line.values()
            call = (f"{method} {route}", answer.status_code, answer.json()["code"])
            assert said(line, "call", "status", "code") == call
            told.append(said(line, "principal", "right", "status", "effect"))
        assert told == [("no token", None, 401, {}), ("unknown token", None, 401, {}), ("eve", "reader", 403, {})], path


async def test_should_have_refusals_of_the_group_and_of_the_limits(audited: Audited) -> None:
    ann, tom = [await audited.service.client(name) for name in ("ann", "tom")]
    await ann.put("/v1/groups/a-1", json=definition())
    for _ in range(2):
        await tom.post("/v1/groups/a-1/subscriptions", json=join_body())
    audited.lines()
    refused = [
        await tom.post("/v1/groups/a-1/subscriptions", json=join_body()),
        await ann.delete("/v1/groups/a-1", params={"reason": "over"}),
        await tom.put("/v1/groups/b-1", json=definition()),
        await tom.put("/v1/groups/a-1", json=definition(), params={"replace": "true"}),
        await ann.put("/v1/groups/a-1", json={"assignor": 1}),
        await ann.post("/v1/groups/nowhere/drain"),
        await ann.post("/v1/groups/a-1/drain", params={"reason": "x" * 201}),
        await ann.post("/v1/groups/a-1/drain?reason=two%0Alines"),
    ]

    lines = audited.lines()
    assert [said(line, "status", "code") for line in lines] == [
        (429, "GROUP_MAX_SIZE_REACHED"),
        (409, "NON_EMPTY_GROUP"),
        (403, "GROUP_AUTHORIZATION_FAILED"),
        (403, "GROUP_AUTHORIZATION_FAILED"),
        (422, "INVALID_REQUEST"),
        (404, "GROUP_ID_NOT_FOUND"),
        (422, "INVALID_REQUEST"),
        (422, "INVALID_REQUEST"),
    ]
    assert [answer.status_code for answer in refused] == [line["status"] for line in lines]
    assert [line["principal"] for line in lines] == ["tom", "ann", "tom", "tom", "ann", "ann", "ann", "ann"]
    assert [line["reason"] for line in lines] == [None, "over", *[None] * 6]
    assert not (await ann.get("/v1/groups/a-1")).json()["draining"], "a reason that is none stops the call"


REASONS = (
    *("Gerät tauschen", "更换磁盘", "замена диска", "استبدال القرص", "دیسک را عوض می\u200cکنم", "ディスク\u3000交換"),
    *("e\u0301 and \u00e9", '👩\u200d🔧 & <b>"disk"</b> 100% +1', "字" * 200),
)


async def test_should_take_a_reason_in_any_letters_and_keep_it_as_it_was_written(audited: Audited) -> None:
    ann = await audited.service.client("ann")
    await ann.put("/v1/groups/a-1", json=definition())
    audited.lines()

    for reason in REASONS:
        assert (await ann.post("/v1/groups/a-1/pause", params={"reason": reason})).is_success
        assert audited.line()["reason"] == reason
        assert (await ann.get("/v1/groups/a-1")).json()["levers"]["pause"]["reason"] == reason
        assert (await ann.post("/v1/groups/a-1/resume")).is_success
        audited.lines()


HIDDEN = "\n\u2028\t\x1b\x9b\0\u202e\u2066\u200f\ufeff"
"""Ends of lines, controls, and marks that hide letters or change their order."""

NO_LINE = "query.reason: must be one line of up to 200 characters"
UNCLEAR = (
    *((f"reason=a{quote(each)}b", NO_LINE) for each in HIDDEN),
    ("reason=" + quote("字" * 201), NO_LINE),
    ("reason=%ff", "query: must be UTF-8"),
    ("reason=%ed%a0%80", "query: must be UTF-8"),
    ("reason=disk&reason=disc", "query.reason: is there more than once"),
)


async def test_should_take_no_reason_that_is_unclear_or_hides_or_ends_lines(audited: Audited) -> None:
    root = await audited.service.client("root")
    calls = sorted(call for call in AUDITED if call[1].startswith("/v1/"))
    for (method, address), (query, why) in itertools.product(calls, UNCLEAR):
        path = re.sub(r"\{[^}]*\}", "a-1", address)
        refused = await root.request(method, f"{path}?{query}", json={})
        assert (refused.status_code, refused.json()["code"]) == (422, "INVALID_REQUEST"), f"{method} {address} {query}"
        assert refused.json()["detail"].startswith(why)


async def test_should_have_no_line_of_reads_heartbeats_rejoins_and_computations(audited: Audited) -> None:
    ann = await audited.service.client("ann")
    await ann.put("/v1/groups/a-1", json=definition())
    at = "/v1/groups/a-1"
    member = (await ann.post(f"{at}/subscriptions", json=join_body(join_id="j"))).json()["member_id"]
    audited.lines()
    rejoin = {"generation_id": 0}
    answers = [
        await ann.post(f"{at}/subscriptions", json=join_body(member_id=member)),
        await ann.post(f"{at}/subscriptions", json=join_body(join_id="j")),
        await ann.post(f"{at}/members/{member}/heartbeat", json=rejoin),
        await ann.post(f"{at}/heartbeat", json={"members": {member: rejoin}}),
        await ann.get(f"{at}/members/{member}/assignment", params={"reason": "none\n"}),
        await ann.get("/v1/groups"),
        await ann.get(at),
        await ann.get(f"{at}/rebalances"),
        await ann.post("/v1/assign", json=reported("a-1", 1)),
        await ann.post("/v1/simulate", json=reported("a-1", 1)),
    ]

    assert {answer.status_code for answer in answers} <= {200, 204}, [answer.text for answer in answers]
    assert audited.lines() == []


async def test_should_keep_what_callers_send_within_a_line(audited: Audited) -> None:
    ann = await audited.service.client("ann")
    await ann.request("DELETE", "/v1/groups/%0A%7B%22principal%22:%22ann%22%7D%E2%80%A8/members/%1B%5B31m" + "m" * 500)

    line = audited.line()
    assert line["group"] == '\n{"principal":"ann"}\u2028'
    assert line["member"] == ("\x1b[31m" + "m" * 500)[:256]


async def test_should_have_who_created_and_revoked_a_token_and_not_the_token(audited: Audited, tmp_path: Path) -> None:
    root = await audited.service.client("root")
    body = {"name": "eu", "right": "member", "groups": "eu-*"}
    created = await root.post("/v1/tokens", json=body, params={"reason": "new team"})
    revoked = await root.delete("/v1/tokens/eu")

    assert [created.status_code, revoked.status_code] == [201, 204], created.text
    assert [said(line, "principal", "call", "token", "status", "effect", "reason") for line in audited.lines()] == [
        ("root", "POST /v1/tokens", "eu", 201, {"right": "member", "groups": "eu-*", "created": True}, "new team"),
        ("root", "DELETE /v1/tokens/{name}", "eu", 204, {}, None),
    ]
    assert created.json()["token"] not in (tmp_path / "audit.log").read_text()


def test_should_append_to_a_file_of_its_owner_only_and_begin_a_new_one_once_it_was_moved_away(tmp_path: Path) -> None:
    file, moved = tmp_path / "audit.log", tmp_path / "audit.log.1"
    for number in range(2):
        log = AuditLog(file)
        log.write({"number": number})
        log.close()
    log = AuditLog(file)
    file.rename(moved)
    log.write({"number": 2})
    log.close()

    assert moved.read_text() == '{"number": 0}\n{"number": 1}\n'
    assert file.read_text() == '{"number": 2}\n'
    assert [stat.S_IMODE(each.stat().st_mode) for each in (file, moved)] == [0o600, 0o600]


def test_should_count_what_cannot_be_written_and_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = []
    file = tmp_path / "audit.log"
    log = AuditLog(file)
    log.on_lost = lambda: lost.append(1)
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:5]))
    log.write({"cut": "short"})
    monkeypatch.setattr(os, "write", real)
    log.write({"whole": 1})
    log.close()

    assert lost == [1]
    assert file.read_text() == '{"cut\n{"whole": 1}\n'


@pytest.mark.parametrize("name", ["nowhere/audit.log", "."])
def test_should_refuse_to_start_on_a_file_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    ended = run_command(tmp_path, "serve", "--port", "0", "--audit-log-file", name)

    assert ended.returncode == 2
    assert re.search(r"^error: audit\.log\.file: .* cannot be written: ", ended.stderr, re.MULTILINE)
    assert "Traceback" not in ended.stderr


def test_should_go_on_serving_while_the_disk_takes_no_line(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    with ServiceProcess(tmp_path, "--audit-log-file", str(file), "--log-format", "json") as process:
        with process.client() as client:
            file.unlink()
            file.mkdir()  # as root no mode of a file keeps the service from it
            groups = [new_group(client)]
            file_was_looked_at = client.get("/metrics").text
            while "assignor_audit_lost_total 0.0" in file_was_looked_at:  # within a second
                groups.append(new_group(client))
                file_was_looked_at = client.get("/metrics").text
            new_group(client)
            assert "assignor_audit_lost_total 2.0" in client.get("/metrics").text
            file.rmdir()
            after = new_group(client)
        process.stop()

    assert [json.loads(line)["group"] for line in file.read_text().splitlines()] == [after]
    events = [json.loads(line) for line in process.log if "audit" in line]
    assert [(each["event"], each["level"]) for each in events] == [
        ("audit_not_written", "error"),
        ("audit_written_again", "warning"),
    ]


def test_should_go_to_the_services_log_without_a_file(service: ServiceProcess, client: httpx.Client) -> None:
    group_id = new_group(client)
    ended = assignor("groups", "delete", group_id, "--coordinator", service.url, "--reason", "not needed")
    assert ended[0] == 0, ended
    client.get("/livez")

    audited = service.logged(lambda line: group_id in line and json.loads(line)["event"] == "audit", 2)
    calls = [json.loads(line) for line in audited]
    assert [(each["call"], each["reason"], each["level"]) for each in calls] == [
        ("PUT /v1/groups/{group}", None, "info"),
        ("DELETE /v1/groups/{group}", "not needed", "info"),
    ]
    assert calls[0]["principal"] == "anybody on this machine"


async def test_should_write_the_line_before_the_first_byte_of_the_answer_goes_out(audited: Audited) -> None:
    ann = await audited.service.client("ann")
    transport = ann._transport
    assert isinstance(transport, httpx.ASGITransport)
    application, lines_then = transport.app, []

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        async def watch(message: Any) -> None:
            lines_then.append(len(audited.lines()))
            await send(message)

        await application(scope, receive, watch)

    transport.app = watched
    for answer in (
        await ann.put("/v1/groups/a-1", json=definition()),
        await ann.post("/v1/groups/a-1/subscriptions", json=join_body()),
        await ann.delete("/v1/groups/a-1"),
    ):
        assert answer.status_code in (201, 409)
    assert lines_then == [1, 0] * 3
