"""The service as one ASGI application."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import NamedTuple

from fastapi import FastAPI
from starlette.routing import BaseRoute

from coordinator_api.http import openapi, problems
from coordinator_api.http.audit import AuditLog
from coordinator_api.http.auth import Access
from coordinator_api.http.connections import OpenConnections
from coordinator_api.http.middleware import RequestBodies, RequestGuard
from coordinator_api.http.other_coordinators import OtherCoordinators, on_not_owner
from coordinator_api.http.proxies import Proxies
from coordinator_api.http.routes import groups, levers, logs, members, rebalances, service, stateless, tokens
from coordinator_api.runtime.assembly import open_coordinator
from coordinator_api.runtime.coordinator import Coordinator
from coordinator_api.settings import Settings
from coordinator_api.store.store_errors import NotOwner

# The routes of members come first, because FastAPI tries the routes in this order, and most calls come from members.
_NOUNS = (members, groups, levers, rebalances, logs, stateless, tokens, service)
_TAGS = ("groups", "levers", "members", "rebalances", "logs", "stateless", "tokens", "service", "health")
_CALLS = [route for noun in _NOUNS for route in noun.router.routes]


class Pages(NamedTuple):
    """The web pages of `coordinator_api.web`, which this package must not import: `coordinator_api.web` is a layer
    above this package. `install`: a function that is called before the first request.
    """

    routes: Sequence[BaseRoute]
    problem_page: problems.ProblemPage
    install: Callable[[FastAPI, Coordinator], None]


async def open_with_tokens(settings: Settings, access: Access, url: str = "") -> Coordinator:
    """Opens the coordinator, and loads the tokens of the coordinator's database into `access`. `url`: this
    coordinator's address, which the other coordinators of the database use.

    Raises StoreError. Raises SettingsError if other machines could reach the service although the service has no token.
    """
    coordinator = await open_coordinator(settings, url, access.is_tenant)
    try:
        await access.load(coordinator.tokens, is_shared=coordinator.lease.is_shared)
        access.check_exposure(settings.host)
    except BaseException:
        await coordinator.close()
        raise
    return coordinator


def create_app(
    settings: Settings,
    coordinator: Coordinator | None = None,
    access: Access | None = None,
    pages: Pages | None = None,
    connections: OpenConnections | None = None,
) -> FastAPI:
    """Builds the application of the service.

    `coordinator`: the coordinator that `open_with_tokens` has opened. If `coordinator` is None, the application opens a
    coordinator when it starts. When the application stops, it always closes the coordinator. `access`: the tokens that
    `open_with_tokens` has loaded. `pages`: the web pages; without the pages, the service has only the API.
    `connections`: the connections of the server; if None, the service does not notice broken connections.

    Raises InputError for tokens that cannot be used, and SettingsError for an audit log that cannot be written. Without
    a token, the service starts only if other machines cannot reach it.
    """
    access = access or Access(settings)
    audit = AuditLog(settings.audit_log_file)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        opened = await open_with_tokens(settings, access) if coordinator is None else coordinator
        app.state.coordinator = opened
        app.state.access = access
        app.state.connections = connections or OpenConnections(opened)
        app.state.other_coordinators = others = OtherCoordinators(opened)
        audit.on_lost = opened.metrics.lost_audit_lines.inc
        try:
            if pages is not None:
                pages.install(app, opened)
            async with access.kept_up_to_date():
                opened.lease.serves()
                yield
        finally:
            await opened.close()
            await others.close()
            audit.close()

    app = FastAPI(
        title="assignor",
        summary="Kafka Streams' task placement as a durable service",
        version=version("assignor"),
        lifespan=lifespan,
        routes=[*_CALLS, *([] if pages is None else pages.routes)],
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        openapi_tags=[{"name": tag} for tag in _TAGS],
        redirect_slashes=False,
    )
    app.state.request_bodies = bodies = RequestBodies(settings)
    app.add_middleware(
        RequestGuard,
        credentials=access.credentials,
        bodies=bodies,
        proxies=Proxies(settings.root_path, settings.forwarded_allow_ips),
        audit=audit,
    )
    problems.install(app)
    app.add_exception_handler(NotOwner, on_not_owner)
    app.state.problem_page = None if pages is None else pages.problem_page
    openapi.install(app, lambda: not access.credentials.is_empty)
    return app
