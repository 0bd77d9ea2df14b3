"""A store asked by key on the page: who may, what is called, and what an instance's answer becomes."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from coordinator_api.web.store_page import MOST_BYTES, StoreUnanswered, ask_by_key, endpoints_of
from coordinator_client.access.principals import Right
from tests.coordinator_api.http.tenants import tenants
from tests.coordinator_api.web.visitors import browser_of, declared, soup
from tests.known import known
from tests.streams_runtime.stub_service import Answer, StubService, stub_service

PRINCIPALS = {"olga": (Right.OPERATOR, ""), "rita": (Right.READER, "")}
VALUE = {"value": 3, "value_base64": "AAAAAAAAAAM=", "timestamp_ms": None}
FOUND: dict[str, object] = {"application_id": "app", "task": "1_1", "role": "active", "lag": 0, **VALUE}
NOWHERE = "http://127.0.0.1:1"
ELSEWHERE = "INVALID_STATE_STORE_PARTITION"


@contextmanager
def instances(*answers: tuple[int, Mapping[str, Any] | bytes]) -> Iterator[list[StubService]]:
    """They stand in for instances: each gives every call one answer."""
    with ExitStack() as opened:
        yield [
            opened.enter_context(stub_service(Answer(status, answer, owner=NOWHERE if status == 302 else "")))
            for status, answer in answers
        ]


def endpoint(instance: StubService) -> str:
    return instance.url.removeprefix("http://")


async def test_should_ask_for_the_key_as_it_was_typed_with_the_services_own_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of-the-instances\n")
    with instances((200, FOUND)) as (one,):
        answer = await ask_by_key([endpoint(one)], "app", "words/é", "a&b=c", 5, tmp_path / "token")

    (asked,) = one.asked
    address = urlsplit(asked.path)
    assert (address.path, asked.authorization) == ("/v1/stores/words%2F%C3%A9/key", "Bearer of-the-instances")
    assert parse_qs(address.query) == {"key": ["a&b=c"], "max_lag": ["5"]}
    assert (answer.value, answer.host, answer.role, answer.task, answer.lag) == ("3", endpoint(one), "active", "1_1", 0)


async def test_should_go_on_to_the_instance_that_has_it_if_it_is_one_of_the_group() -> None:
    with instances((421, {"code": ELSEWHERE}), (503, {"code": "STORE_NOT_READY"}), (200, FOUND)) as (first, _, last):
        points_to_last = {"code": ELSEWHERE, "detail": "not here", "active": endpoint(last)}
        with instances((421, points_to_last)) as (pointing,):
            known = [endpoint(each) for each in (pointing, first, last)]
            answer = await ask_by_key(known, "app", "counts", "cat", None, None)

    assert (answer.host, first.asked) == (endpoint(last), [])


async def test_should_call_no_address_that_no_member_told() -> None:
    with instances((200, FOUND)) as (stranger,):
        points_there = {"code": ELSEWHERE, "detail": "not here", "active": endpoint(stranger)}
        with instances((421, points_there)) as (one,), pytest.raises(StoreUnanswered, match="can answer now"):
            await ask_by_key([endpoint(one)], "app", "counts", "cat", None, None)

    assert stranger.asked == []


@pytest.mark.parametrize(
    ("status", "answer", "said"),
    [
        (404, {"code": "UNKNOWN_STATE_STORE", "detail": "no store of this name"}, "no store of this name"),
        (401, {"code": "SASL_AUTHENTICATION_FAILED", "detail": "a token is needed"}, "a token is needed"),
        (302, b"{}", "status 302"),
        (200, b"[" * 1_000 + b"\n", "no instance can answer"),
        (200, b"<html>", "no instance can answer"),
        (200, {**FOUND, "application_id": "another"}, "no instance can answer"),
        (200, b'"' + b"x" * MOST_BYTES + b'"', "is longer than 65,536 bytes"),
    ],
)
async def test_should_say_why_there_is_no_answer(status: int, answer: Mapping[str, Any] | bytes, said: str) -> None:
    with instances((status, answer)) as (one,), pytest.raises(StoreUnanswered, match=said):
        await ask_by_key([endpoint(one)], "app", "counts", "cat", None, None)


async def test_should_name_the_file_of_a_token_that_cannot_be_sent_without_showing_it(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cr3t\ns3cr3t")
    with instances((200, FOUND)) as (one,), pytest.raises(StoreUnanswered) as unanswered:
        await ask_by_key([endpoint(one)], "app", "counts", "cat", None, tmp_path / "token")
    assert str(unanswered.value).startswith("page.store.token.file: a token is one line of printable ASCII")
    assert str(tmp_path / "token") in str(unanswered.value)
    assert "s3cr3t" not in str(unanswered.value)


async def test_should_say_that_nobody_has_told_where_it_answers_or_can_be_reached() -> None:
    with pytest.raises(StoreUnanswered, match=r"set application\.server"):
        await ask_by_key([], "app", "counts", "cat", None, None)
    with pytest.raises(StoreUnanswered) as unanswered:
        await ask_by_key(["127.0.0.1:1"], "app", "counts", "cat", None, None)
    assert "cannot be reached" in unanswered.value.tried["127.0.0.1:1"]


@pytest.mark.parametrize(
    "endpoint",
    [
        "169.254.169.254:80",
        "[::ffff:169.254.169.254]:80",
        "[::ffff:a9fe:a9fe]:80",
        "[::ffff:0.0.0.0]:80",
        "224.0.0.1:80",
        "0.0.0.0:80",
        "[fe80::1]:80",
        "127.0.0.1:99999",
    ],
)
async def test_should_call_nothing_that_cannot_be_an_instance(endpoint: str) -> None:
    with pytest.raises(StoreUnanswered) as unanswered:
        await ask_by_key([endpoint], "app", "counts", "cat", None, None)
    assert unanswered.value.tried[endpoint].endswith(("is no address of an instance", "is no port"))


def test_should_take_for_an_address_only_a_host_and_a_port_of_who_is_here() -> None:
    told = ["a:1", "a:1", None, "a:1/../x", "user@b:2", "[::1]:7", "b", "b:2?x", "away:9"]
    members = [{"user_endpoint": each, "away_until_ms": 5 if each == "away:9" else None} for each in told]

    assert endpoints_of({"members": members}) == ["a:1", "[::1]:7"]


async def test_should_be_off_by_default_and_for_operators_alone(tmp_path: Path) -> None:
    async with tenants(tmp_path, PRINCIPALS) as service:
        await declared(service, "a-1")
        page = soup(await (await browser_of(service, "olga")).get("/ui/groups/a-1/stores?store=counts&key=cat"))
        refused = await (await browser_of(service, "rita")).get("/ui/groups/a-1/stores")

    assert page.select("main form") == []
    assert "page.store.queries" in page.get_text()
    assert refused.status_code == 403


async def test_should_say_what_is_wrong_and_keep_the_input(tmp_path: Path) -> None:
    async with tenants(tmp_path, PRINCIPALS, page_store_queries="on") as service:
        await declared(service, "a-1")
        olga = await browser_of(service, "olga")
        for query, status, said in (
            ("store=none&key=cat", 400, "Choose one of the stores"),
            ("store=counts&key=", 400, "Enter a key"),
            ("store=counts&key=cat&max_lag=much", 400, "whole number of records"),
            ("store=counts&key=cat", 502, "set application.server"),
        ):
            answer = await olga.get(f"/ui/groups/a-1/stores?{query}")
            page = soup(answer)
            assert answer.status_code == status
            assert said in known(page.select_one("main [role=alert]")).get_text()
            assert known(page.select_one("#key"))["value"] == parse_qs(query).get("key", [""])[0]
