"""`/ui/groups/{group}/levers`: what an operator may set or start, as forms. A POST does what the call below /v1 does.

A form that is refused comes back with what is wrong and with what was typed. One that was accepted leads to the page
again, so that a reload sends nothing twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import Depends, Request
from starlette.responses import Response

from assignor.errors import InputError
from coordinator_api.group.outcome import AssignmentStored, ComputedAgain, Rejected
from coordinator_api.http.audit import note_effect, note_lever, note_reason
from coordinator_api.http.connections import unless_hung_up
from coordinator_api.http.dependencies import GroupId, TheCoordinator, caller, checked_router
from coordinator_api.http.problems import PROBLEM_CODE, TITLES, Problem
from coordinator_api.web.group_grids import GroupGrids
from coordinator_api.web.held_looks import HeldLooks
from coordinator_api.web.lever_calls import CALLS, LABELS, LeverForm
from coordinator_api.web.rendering import page, see_other
from coordinator_api.web.sessions import checked_form
from coordinator_api.web.views.group_header import GroupHeader
from coordinator_api.web.views.levers import LeverBoard

router = checked_router(include_in_schema=False)

Form = Annotated[Mapping[str, str], Depends(checked_form)]


@router.get("/ui/groups/{group}/levers")
async def levers(request: Request, group_id: GroupId) -> Response:
    """The levers as they are, and forms for those who may pull them."""
    done = CALLS.get(request.query_params.get("done", ""))
    return await _shown(request, group_id, done=None if done is None else done.done)


@router.post("/ui/groups/{group}/levers")
async def pull(request: Request, group_id: GroupId, coordinator: TheCoordinator, form: Form) -> Response:
    """Pull the lever that the form names."""
    lever = form.get("lever", "")
    call = CALLS.get(lever)
    if call is None:
        raise Problem("INVALID_REQUEST", "the form names no lever of this page")
    note_effect(request, lever=lever)
    typed = {f"{lever}-{name}" if name == "reason" else name: value for name, value in form.items() if name != "lever"}
    runtime = coordinator.group(group_id)
    try:
        try:
            reason = note_reason(request, form.get("reason", "").strip())
        except Problem as problem:
            raise InputError(problem.detail.partition(": ")[2], f"{lever}-reason") from None
        event = call.event(LeverForm(form, caller(request), reason))
    except InputError as error:
        request.scope["state"][PROBLEM_CODE] = "INVALID_REQUEST"
        why = str(error).removeprefix(f"{error.where}: ")
        return await _shown(request, group_id, status=422, typed=typed, wrong_field=error.where, wrong=why)
    note_lever(request, event)
    answer = await runtime.handle(event)
    if isinstance(answer, Rejected):
        request.scope["state"][PROBLEM_CODE] = answer.code.value
        return await _shown(request, group_id, status=TITLES[answer.code.value][0], typed=typed, wrong=answer.detail)
    if isinstance(answer, AssignmentStored | ComputedAgain):
        note_effect(request, generation_id=answer.generation_id)
    return see_other(request, f"/ui/groups/{quote(group_id, safe='')}/levers?{urlencode({'done': lever})}")


async def _shown(
    request: Request,
    group_id: str,
    *,
    status: int = 200,
    done: str | None = None,
    typed: Mapping[str, str] | None = None,
    wrong_field: str | None = None,
    wrong: str | None = None,
) -> Response:
    grids: GroupGrids = request.app.state.group_grids
    looks: HeldLooks = request.app.state.held_looks
    seen = await unless_hung_up(request, grids.now(group_id))
    document = seen.document.values
    looked = await looks.of(request, group_id, document["held_rebalance"])
    names = {row.process_id: row.name for row in seen.grid.rows}
    return page(
        request,
        "levers",
        status=status,
        group=replace(GroupHeader.of(document, seen.document.tasks), levers=()),  # they have cards of their own
        board=LeverBoard.of(document, names, looked),
        digest=seen.document.digest,
        done=done,
        typed=typed or {},
        wrong_field=wrong_field,
        labels=LABELS,
        wrong=wrong,
    )
