"""Collects all web pages for the application. Adds the routes of the pages and the page for problems, and sets up
shared objects.
"""

from fastapi import FastAPI, Request, Response
from starlette.responses import RedirectResponse

from coordinator_api.http.app import Pages
from coordinator_api.http.dependencies import named_router
from coordinator_api.http.proxies import reference
from coordinator_api.runtime.admission import Admission
from coordinator_api.runtime.coordinator import Coordinator
from coordinator_api.web import (
    group_page,
    groups_page,
    lever_page,
    login_page,
    static_files,
    store_page,
    task_page,
    time_page,
    topology_page,
    what_if_page,
)
from coordinator_api.web.group_documents import GroupDocuments
from coordinator_api.web.group_summaries import GroupSummaries
from coordinator_api.web.problem_pages import problem_page
from coordinator_api.web.rendering import page

PAGES = (
    groups_page,
    group_page,
    lever_page,
    store_page,
    task_page,
    time_page,
    topology_page,
    what_if_page,
    login_page,
    static_files,
)
"""The modules of the pages. Add the module of a new page here."""

router = named_router(include_in_schema=False)


@router.get("/docs")
async def docs(request: Request) -> Response:
    """Shows the calls of the OpenAPI document in the Swagger UI of `vendor/`. The Swagger UI of `vendor/` loads nothing
    from other sites.
    """
    return page(request, "reference")


@router.get("/redoc")
async def redoc(request: Request) -> Response:
    return RedirectResponse(reference(request.scope, "/docs"))


def install(app: FastAPI, coordinator: Coordinator) -> None:
    """Put the objects that the routes share into the application's state."""
    static_files.static_files()  # compress the static files now, because compressing them takes too long for a request
    app.state.page_streams = Admission(coordinator.settings.page_events_max_count, "page.events.max.count")
    app.state.group_documents = documents = GroupDocuments(coordinator)
    app.state.held_changes = lever_page.HeldChanges(coordinator)
    app.state.task_histories = task_page.TaskHistories(coordinator)
    app.state.written_topics = topology_page.WrittenTopics(coordinator)
    app.state.group_summaries = GroupSummaries(coordinator, documents)


WEB_PAGES = Pages([*router.routes, *(route for file in PAGES for route in file.router.routes)], problem_page, install)
