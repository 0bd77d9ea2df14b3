"""The whole application in this process, on a real SQLite file, for callers with different tokens."""

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from coordinator_api.http.app import create_app
from coordinator_api.runtime.coordinator import Coordinator
from coordinator_api.web.pages import WEB_PAGES
from coordinator_client.access.principals import Principal, Right
from coordinator_client.access.tokens import TokenEntry, digest_of, format_entry
from tests.coordinator_api.group_members import subscription
from tests.coordinator_api.store.databases import settings_for

CLIENT = "198.51.100.7"
PROCESS = "3f0c2b1e-6c1d-4a53-9a43-2f1f5e6b7a10"


class Tenants:
    """`coordinator`: what the calls reach."""

    def __init__(self, app: FastAPI, stack: AsyncExitStack) -> None:
        self._app = app
        self._stack = stack
        self.coordinator: Coordinator = app.state.coordinator

    async def client(self, token: str | None, address: str = CLIENT) -> httpx.AsyncClient:
        """Carries the token, which is the name of its principal. `address`: where it calls from."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        transport = httpx.ASGITransport(app=self._app, client=(address, 1))
        client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers)
        return await self._stack.enter_async_context(client)


@asynccontextmanager
async def tenants(
    directory: Path, principals: Mapping[str, tuple[Right, str]], **changes: object
) -> AsyncIterator[Tenants]:
    """`principals`: name to right and group prefix. `changes`: of the settings."""
    entries = ";".join(
        format_entry(TokenEntry(Principal(name, right, prefix), digest_of(name.encode())))
        for name, (right, prefix) in principals.items()
    )
    changes = {"group_initial_rebalance_delay_ms": 0, "auth_tokens": entries, **changes}
    async with AsyncExitStack() as stack:
        app = create_app(settings_for(directory, **changes), pages=WEB_PAGES)
        await stack.enter_async_context(app.router.lifespan_context(app))
        app.state.coordinator.overload.admit = lambda kind: None  # the loop of a busy machine is late
        yield Tenants(app, stack)


def join_body(**changes: object) -> dict[str, Any]:
    return {
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "subscription": base64.b64encode(subscription(PROCESS)).decode(),
        **changes,
    }
