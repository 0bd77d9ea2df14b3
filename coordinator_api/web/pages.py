"""The page as one piece, which the application takes in: its routes, and its way to show a problem."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import FastAPI
from starlette.routing import BaseRoute

from coordinator_api.groups.admission import Admission
from coordinator_api.groups.coordinator import Coordinator
from coordinator_api.http.problems import ProblemPage
from coordinator_api.web.group_documents import GroupDocuments
from coordinator_api.web.group_grids import GroupGrids
from coordinator_api.web.group_summaries import GroupSummaries
from coordinator_api.web.held_looks import HeldLooks
from coordinator_api.web.problem_pages import problem_page
from coordinator_api.web.routes import (
    group,
    groups,
    levers,
    login,
    reference,
    static,
    stores,
    task,
    time,
    topology,
    what_if,
)
from coordinator_api.web.static_files import static_files


class WebPages:
    """As `http.app.Pages`."""

    @property
    def routes(self) -> Sequence[BaseRoute]:
        """A new view adds its file here."""
        views = (groups, group, levers, stores, task, time, topology, what_if)
        return [route for file in (*views, login, reference, static) for route in file.router.routes]

    @property
    def problem_page(self) -> ProblemPage:
        return problem_page

    def install(self, app: FastAPI, coordinator: Coordinator) -> None:
        static_files()  # packing them takes too long for a request
        app.state.page_streams = Admission(coordinator.settings.page_events_max_count, "page.events.max.count")
        app.state.group_documents = documents = GroupDocuments(coordinator)
        app.state.group_grids = GroupGrids(documents)
        app.state.held_looks = HeldLooks(coordinator)
        app.state.group_summaries = GroupSummaries(coordinator, documents)
