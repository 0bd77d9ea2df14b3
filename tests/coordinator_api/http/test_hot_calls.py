"""The calls that fleets make all the time are answered before FastAPI; all others by FastAPI, behind the same guard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from coordinator_api.groups.coordinator import Coordinator
from coordinator_api.http.app import GuardedApp, create_app
from tests.coordinator_api.group_members import problem
from tests.coordinator_api.store.databases import settings_for


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[GuardedApp]:
    opened = await Coordinator.open(settings_for(tmp_path))
    made = create_app(settings_for(tmp_path), opened)
    made.state.coordinator = opened
    yield made
    await opened.close()


@pytest.fixture
async def client(app: GuardedApp) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as opened:
        yield opened


async def test_should_answer_a_hot_call_without_any_layer_of_fastapi(
    app: GuardedApp, client: httpx.AsyncClient
) -> None:
    response = await client.post("/v1/groups/strange/members/m/heartbeat", json={"generation_id": 1})

    assert problem(response) == (404, "GROUP_ID_NOT_FOUND")
    assert app.middleware_stack is None, "FastAPI builds it for its first request"


async def test_should_answer_every_other_call_with_fastapi_behind_the_same_guard(
    app: GuardedApp, client: httpx.AsyncClient
) -> None:
    assert (await client.get("/livez")).status_code == 200
    assert app.middleware_stack is not None
    assert problem(await client.request("GET", "/livez", content=b"x" * 2_000)) == (413, "MESSAGE_TOO_LARGE")
