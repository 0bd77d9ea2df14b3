"""Every failure is a problem document under Kafka's name: also those that only a broken service has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NoReturn

import httpx
import pytest

from coordinator_api.group.states import RejectionCode
from coordinator_api.groups.coordinator import Coordinator
from coordinator_api.http.app import create_app
from coordinator_api.http.problems import TITLES
from coordinator_api.store.errors import StoreError
from coordinator_api.store.sql_repository import SqlRepository
from tests.coordinator_api.group_members import definition, problem
from tests.coordinator_api.store.databases import settings_for

SECRET = "what-nobody-should-read"


async def broken() -> None:
    raise RuntimeError(SECRET)


async def unwritable(*_: object) -> NoReturn:
    raise StoreError(SECRET)


def call(
    directory: Path, work: Callable[[httpx.AsyncClient, Coordinator], Awaitable[httpx.Response]]
) -> httpx.Response:
    """`work` against the application in this process, with an address that always fails."""

    async def called() -> httpx.Response:
        settings = settings_for(directory)
        coordinator = await Coordinator.open(settings)
        app = create_app(settings, coordinator)
        app.add_api_route("/broken", broken)
        app.state.coordinator = coordinator
        try:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
                return await work(client, coordinator)
        finally:
            await coordinator.close()

    return asyncio.run(called())


def test_should_have_a_title_and_the_same_status_for_every_refusal_of_a_group() -> None:
    assert {code: TITLES[code.value][0] for code in RejectionCode} == {
        RejectionCode.GROUP_ID_NOT_FOUND: 404,
        RejectionCode.UNKNOWN_MEMBER_ID: 404,
        RejectionCode.ILLEGAL_GENERATION: 409,
        RejectionCode.REBALANCE_IN_PROGRESS: 409,
        RejectionCode.FENCED_INSTANCE_ID: 409,
        RejectionCode.NON_EMPTY_GROUP: 409,
        RejectionCode.NOT_COORDINATOR: 409,
        RejectionCode.INCONSISTENT_GROUP_PROTOCOL: 409,
        RejectionCode.GROUP_MAX_SIZE_REACHED: 429,
        RejectionCode.INVALID_SESSION_TIMEOUT: 422,
        RejectionCode.INVALID_REQUEST: 422,
    }


def test_should_hide_what_went_wrong_and_log_it_under_the_incident_it_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    response = call(tmp_path, lambda client, _: client.get("/broken"))

    assert problem(response) == (500, "UNKNOWN_SERVER_ERROR")
    assert SECRET not in response.text
    incident = response.json()["instance"].rpartition(":")[2]
    logged = capsys.readouterr()
    assert incident in response.json()["detail"]
    assert incident in logged.out + logged.err
    assert SECRET in logged.out + logged.err


def test_should_say_that_a_change_was_not_made_when_the_store_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def put(client: httpx.AsyncClient, _: Coordinator) -> httpx.Response:
        monkeypatch.setattr(SqlRepository, "append", unwritable)
        return await client.put("/v1/groups/g", json=definition())

    response = call(tmp_path, put)

    assert problem(response) == (503, "KAFKA_STORAGE_ERROR")
    assert SECRET not in response.text
    assert response.headers["retry-after"] == "1"


def test_should_not_be_ready_when_the_store_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ready(client: httpx.AsyncClient, _: Coordinator) -> httpx.Response:
        monkeypatch.setattr(SqlRepository, "ping", unwritable)
        assert (await client.get("/livez")).status_code == 200
        return await client.get("/readyz")

    assert problem(call(tmp_path, ready)) == (503, "COORDINATOR_NOT_AVAILABLE")


def test_should_send_callers_away_while_it_stops(tmp_path: Path) -> None:
    async def stopping(client: httpx.AsyncClient, coordinator: Coordinator) -> httpx.Response:
        coordinator.begin_stop()
        return await client.get("/v1/groups")

    response = call(tmp_path, stopping)

    assert problem(response) == (503, "COORDINATOR_NOT_AVAILABLE")
    assert response.headers["retry-after"] == "1"
