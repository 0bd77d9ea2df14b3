"""`/ui/groups/{group}/stores`: one key of a store, as the instance that has it answers, where that is switched on."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from coordinator_api.http.connections import unless_hung_up
from coordinator_api.http.dependencies import GroupId, TheCoordinator, named_router
from coordinator_api.web.group_documents import TheDocument
from coordinator_api.web.rendering import page
from coordinator_api.web.store_queries import StoreAnswer, StoreUnanswered, ask_by_key, endpoints_of

router = named_router(include_in_schema=False)

LONGEST_KEY = 2_000
LONGEST_LAG = 10**12


@router.get("/ui/groups/{group}/stores")
async def stores(request: Request, group_id: GroupId, coordinator: TheCoordinator, document: TheDocument) -> Response:
    """The form, and the answer when a key is asked for."""
    topology = (await coordinator.group(group_id).definition(document.image)).snapshot.topology
    names = sorted({store.name for each in topology.subtopologies for store in each.stores})
    settings, query = coordinator.settings, request.query_params
    is_on = settings.page_store_queries == "on"
    store, key, lag = query.get("store", ""), query.get("key"), query.get("max_lag", "").strip()
    answer: StoreAnswer | None = None
    wrong, tried, status = None, {}, 200
    if is_on and key is not None:
        wrong = _query_error(store, key, lag, names)
        status = 400 if wrong else 200
    if is_on and key is not None and wrong is None:
        asked = ask_by_key(
            endpoints_of(document.values),
            document.values["application_id"],
            store,
            key,
            int(lag) if lag else None,
            settings.page_store_token_file,
        )
        try:
            answer = await unless_hung_up(request, asked)
        except StoreUnanswered as unanswered:
            wrong, tried, status = str(unanswered), unanswered.tried, 502
    return page(
        request,
        "stores",
        status=status,
        group_id=group_id,
        enabled=is_on,
        names=names,
        store=store,
        key=key or "",
        lag=lag,
        answer=answer,
        wrong=wrong,
        tried=tried,
    )


def _query_error(store: str, key: str, lag: str, names: list[str]) -> str | None:
    """In a sentence; None when it can be asked."""
    if store not in names:
        return "Choose one of the stores of this group."
    if not key or len(key) > LONGEST_KEY:
        return f"Enter a key of up to {LONGEST_KEY:,} characters."
    if lag and not (lag.isascii() and lag.isdigit() and len(lag) <= 13 and int(lag) <= LONGEST_LAG):
        return "The lag must be a whole number of records, or empty."
    return None
