"""Every failure is a problem document under Kafka's name: also those that only a broken service has."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NoReturn

import httpx
import pytest

from coordinator_api.group.states import RejectionCode
from coordinator_api.http.app import create_app
from coordinator_api.http.connections import OpenConnections
from coordinator_api.http.problems import TITLES
from coordinator_api.runtime.assembly import open_coordinator
from coordinator_api.runtime.coordinator import Coordinator
from coordinator_api.store.repository import Repository
from coordinator_api.store.store_errors import StoreError
from tests.coordinator_api.group_members import definition, problem
from tests.coordinator_api.store.databases import settings_for

SECRET = "what-nobody-should-read"


async def broken() -> None:
    raise RuntimeError(SECRET)


async def unwritable(*_: object) -> NoReturn:
    raise StoreError(SECRET)


@pytest.fixture
async def coordinator(tmp_path: Path) -> AsyncIterator[Coordinator]:
    opened = await open_coordinator(settings_for(tmp_path))
    yield opened
    await opened.close()


@pytest.fixture
async def client(coordinator: Coordinator, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Of the application in this process, with an address that always fails."""
    app = create_app(settings_for(tmp_path), coordinator)
    app.add_api_route("/broken", broken)
    app.state.coordinator, app.state.connections = coordinator, OpenConnections(coordinator)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as opened:
        yield opened


def test_should_have_a_title_and_the_same_status_for_every_refusal_of_a_group() -> None:
    others = {
        404: {RejectionCode.GROUP_ID_NOT_FOUND, RejectionCode.UNKNOWN_MEMBER_ID},
        422: {RejectionCode.INVALID_SESSION_TIMEOUT, RejectionCode.INVALID_REQUEST},
        429: {RejectionCode.GROUP_MAX_SIZE_REACHED, RejectionCode.POLICY_VIOLATION},
    }
    status_of = {code: status for status, codes in others.items() for code in codes}
    assert {code: TITLES[code.value][0] for code in RejectionCode} == dict.fromkeys(RejectionCode, 409) | status_of


async def test_should_hide_what_went_wrong_and_log_it_under_the_incident_it_names(
    client: httpx.AsyncClient, capsys: pytest.CaptureFixture[str]
) -> None:
    response = await client.get("/broken")

    assert problem(response) == (500, "UNKNOWN_SERVER_ERROR")
    assert SECRET not in response.text
    incident = response.json()["instance"].rpartition(":")[2]
    logged = capsys.readouterr()
    assert incident in response.json()["detail"]
    assert incident in logged.out + logged.err
    assert SECRET in logged.out + logged.err


async def test_should_say_that_nothing_was_stored(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Repository, "append", unwritable)

    response = await client.put("/v1/groups/g", json=definition())

    assert problem(response) == (503, "KAFKA_STORAGE_ERROR")
    assert SECRET not in response.text
    assert response.headers["retry-after"] == "1"


async def test_should_not_be_ready_without_a_store(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Repository, "check", unwritable)

    assert (await client.get("/livez")).status_code == 200
    response = await client.get("/readyz")
    assert problem(response) == (503, "COORDINATOR_NOT_AVAILABLE")
    assert response.json()["parts"] == {"store": "it cannot be read or written", "groups": "ok"}


async def test_should_send_callers_away_while_it_stops(client: httpx.AsyncClient, coordinator: Coordinator) -> None:
    coordinator.begin_stop()

    response = await client.get("/v1/groups")

    assert problem(response) == (503, "COORDINATOR_NOT_AVAILABLE")
    assert response.headers["retry-after"] == "1"
