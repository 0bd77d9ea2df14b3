"""The service as one ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from coordinator_api.groups.coordinator import Coordinator
from coordinator_api.http import openapi, problems
from coordinator_api.http.auth import Gate, check_exposure, token_of
from coordinator_api.http.hot_calls import HotCalls
from coordinator_api.http.middleware import RequestGuard
from coordinator_api.http.routes import about, groups, health, members, rebalances, stateless
from coordinator_api.settings import Settings


class GuardedApp(FastAPI):
    """FastAPI behind the `guard`, which is set before the first request.

    FastAPI's own way to add it would let each request pass through four more layers of middleware first. A held
    heartbeat then keeps their objects as well, and every collection of garbage looks at them.
    """

    guard: RequestGuard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self
        await self.guard(scope, receive, send)

    async def unguarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As FastAPI answers it. Raises what no handler knows."""
        await super().__call__(scope, receive, send)

    def build_middleware_stack(self) -> ASGIApp:
        """Without the outermost layer, which would answer an unexpected error before the guard can."""
        outermost = super().build_middleware_stack()
        assert isinstance(outermost, ServerErrorMiddleware), "Starlette puts it there"
        return outermost.app


def create_app(settings: Settings, coordinator: Coordinator | None = None) -> GuardedApp:
    """`coordinator`: one that is open already; without it the application opens its own when it starts.

    Either way it is closed when the application stops. Raises SettingsError for an exposed service without a token.
    """
    check_exposure(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        opened = coordinator if coordinator is not None else await Coordinator.open(settings)
        app.state.coordinator = opened
        try:
            yield
        finally:
            await opened.close()

    app = GuardedApp(
        title="assignor",
        summary="Kafka Streams' task placement as a durable service",
        version=version("assignor"),
        lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    token = token_of(settings)
    app.guard = RequestGuard(app.unguarded, Gate(token), settings, HotCalls(settings).find)
    problems.install(app)
    for router in (groups.router, members.router, rebalances.router, stateless.router, health.router, about.router):
        app.include_router(router)
    openapi.install(app, needs_token=token is not None)
    return app
