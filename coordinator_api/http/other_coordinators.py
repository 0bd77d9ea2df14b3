"""Handles groups that other coordinators of the same database own. Redirects calls to the owner of a group, and lists
the groups of all coordinators.

- This coordinator itself answers a call about a group that it owns. For any other group, this coordinator first waits
  until the owner is known.
- If another coordinator owns the group, the answer is 307 with the owner's address and the same path.
- If the group has no owner now, the answer is 503, and the caller tries again.
- If the group does not exist, this coordinator answers 404 or creates the group.

`RequestGuard` checks the caller's right, reads the body, and then calls `not_here`. If a group moves to another
coordinator while a call is in progress or held, the lower packages raise NotOwner. The handler of this error,
`on_not_owner`, calls `not_here` again. A caller that follows status 307 sends the same method and body.

For a list of groups, this coordinator takes its own groups from memory. For the groups of other coordinators, this
coordinator calls each owner with the caller's token, and waits for at most a second. If the owner of a group does not
answer, the group is listed as Unknown.

If a list request comes from another coordinator (header `Assignor-Asked-By`), this coordinator lists only its own
groups, and calls no other coordinator. The answers of other coordinators are cached for a second and used again for
callers with the same token, because pages are refreshed often. The answers of other coordinators are validated, because
they come from other processes.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

import httpx
import structlog
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from assignor.errors import InputError
from assignor.names.legal_names import is_legal_name
from coordinator_api.http.call_rights import CALL, Call, with_session
from coordinator_api.http.group_document import group_line
from coordinator_api.http.models.group_models import GroupLine, GroupList, UnreadableGroupLine
from coordinator_api.http.problems import MOVED, TRY_AGAIN_SOON, Problem, answer_to
from coordinator_api.lease.decisions import Elsewhere
from coordinator_api.lease.owned_groups import OtherGroup
from coordinator_api.runtime.coordinator import Coordinator
from coordinator_client.http_client import async_http_client

ASKED_BY = "Assignor-Asked-By"
COORDINATOR = "coordinator"

LONGEST_ANSWER_S = 1.0
MOST_BYTES = 16_777_216
KEPT_S = 1.0

UNKNOWN = "Unknown"
"""The state of a group whose owner does not answer."""


class OtherCoordinators:
    """Sends calls to the other coordinators. Use an `OtherCoordinators` on one event loop only. Call `close` when the
    service stops.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._clients: dict[str, httpx.AsyncClient] = {}
        self._answers: dict[tuple[str, str | None], asyncio.Future[list[GroupList | None]]] = {}
        self._reported: set[str] = set()

    async def close(self) -> None:
        for client in self._clients.values():
            await client.aclose()

    async def groups(self, request: Request, path: str, kind: type[GroupList] = GroupList) -> list[GroupList]:
        """Sends a GET of `path` to the other coordinators that own groups. The first list of the result has all groups
        of other coordinators, each in the state Unknown. Each further list is the answer of one coordinator, parsed as
        the model `kind`.

        Returns an empty list if there is only one coordinator, or if another coordinator sent the request.
        """
        if not self._coordinator.lease.is_shared or request.headers.get(ASKED_BY) is not None:
            return []
        others = self._coordinator.lease.elsewhere()
        answers = await self._answers_of(others, path, with_session(request.headers).get("authorization"), kind)
        return [GroupList(groups=[_unknown(other) for other in others]), *answers]

    async def _answers_of(
        self, others: Iterable[OtherGroup], path: str, authorization: str | None, kind: type[GroupList]
    ) -> Sequence[GroupList]:
        """Calls the coordinators that own the groups `others`, and returns their answers. If a further call has the
        same path and token within `KEPT_S` seconds, the same answers are returned again.
        """
        urls = frozenset(each.url for each in others if each.url is not None)
        if not urls:
            return ()
        key = path, authorization
        asking = self._answers.get(key)
        if asking is None:
            headers = {ASKED_BY: COORDINATOR, **({} if authorization is None else {"Authorization": authorization})}
            asking = self._answers[key] = asyncio.gather(*(self._ask(url, path, headers, kind) for url in urls))
            asking.add_done_callback(
                lambda _: asyncio.get_running_loop().call_later(KEPT_S, self._answers.pop, key, None)
            )
        return [each for each in await asyncio.shield(asking) if each is not None]

    async def _ask(self, url: str, path: str, headers: Mapping[str, str], kind: type[GroupList]) -> GroupList | None:
        """Calls one coordinator. Returns None if the coordinator sends no usable answer in time."""
        try:
            async with asyncio.timeout(LONGEST_ANSWER_S):
                body = bytearray()
                async with self._client(url).stream("GET", url + path, headers=headers) as response:
                    async for piece in response.aiter_bytes():
                        body += piece
                        if len(body) > MOST_BYTES:
                            raise ValueError(f"its answer is longer than {MOST_BYTES:,} bytes")
                if response.status_code != 200:
                    raise ValueError(f"it answers with status {response.status_code}")
                answer = kind.model_validate_json(bytes(body))
        # A failed call raises an error of one of these classes.
        except (httpx.HTTPError, httpx.InvalidURL, InputError, OSError, ValueError) as why:
            if url not in self._reported:
                self._reported.add(url)
                is_other = isinstance(why, ValidationError)  # another service answers at this address
                error = "it answers, but not as a coordinator does" if is_other else str(why)
                structlog.get_logger("coordinator_api").warning(
                    "coordinator_not_heard", url=url, error=error or f"no answer in {LONGEST_ANSWER_S:g} s"
                )
            return None
        self._reported.discard(url)
        return answer

    def _client(self, url: str) -> httpx.AsyncClient:
        """Returns the HTTP client for a coordinator. Raises InputError if the TLS files cannot be used."""
        client = self._clients.get(url)
        if client is None:
            client = self._clients[url] = async_http_client(url, timeout=LONGEST_ANSWER_S)
        return client


def all_groups(
    coordinator: Coordinator, sees: Callable[[str], bool], elsewhere: Iterable[GroupList]
) -> tuple[list[GroupLine], list[UnreadableGroupLine]]:
    """Returns the groups of this coordinator and the groups of other coordinators. `sees`: a function that returns
    False for the id of a group that is left out. `elsewhere`: the lists of other coordinators; a later list overrides
    an earlier list. Raises LeaseEnded.
    """
    coordinator.check_may_answer()
    found: dict[str, GroupLine | UnreadableGroupLine] = {}
    for each in elsewhere:
        found |= {line.group_id: line for line in each.groups}
        found |= {line.group_id: line for line in each.unreadable}
    # this coordinator may have become the owner of a group after another coordinator listed it
    found = {group_id: line for group_id, line in found.items() if not coordinator.is_open(group_id)}
    for group_id, why in coordinator.unreadable.items():
        found[group_id] = UnreadableGroupLine(group_id=group_id, reason=why)
    for runtime in coordinator.declared():
        if sees(runtime.group_id):
            found[runtime.group_id] = group_line(runtime)
    seen = [line for group_id, line in sorted(found.items()) if sees(group_id)]
    unreadable = [line for line in seen if isinstance(line, UnreadableGroupLine)]
    return [line for line in seen if isinstance(line, GroupLine)], unreadable


def _unknown(other: OtherGroup) -> GroupLine:
    return GroupLine(
        group_id=other.group_id,
        state=UNKNOWN,
        generation_id=0,
        members=other.members,
        draining=False,
        probing_rebalance_at_ms=None,
        error=None,
        led_by=None,
    )


async def not_here(scope: Scope, coordinator: Coordinator) -> Problem | None:
    """Returns the redirect for a call about a group that another coordinator owns; None if this coordinator answers the
    call.

    Raises CoordinatorFault or StoreError if no coordinator can answer the call now.
    """
    call: Call | None = scope["state"][CALL]
    group_id = None if call is None else call.parameters.get("group")
    if group_id is None or coordinator.is_open(group_id) or not is_legal_name(group_id):
        return None
    found = await coordinator.lease.located(group_id)
    return _moved(scope, group_id, found.url) if isinstance(found, Elsewhere) else None


async def on_not_owner(request: Request, error: Exception) -> Response:
    """Handles NotOwner, which means that this coordinator lost the group or handed it over during the call."""
    elsewhere = await not_here(request.scope, request.app.state.coordinator)
    problem = elsewhere or Problem(
        "COORDINATOR_LOAD_IN_PROGRESS",
        "the group had another owner for a moment, so nothing was done: ask again",
        headers=TRY_AGAIN_SOON,
    )
    return answer_to(request.scope, problem)


def _moved(scope: Scope, group_id: str, url: str) -> Problem:
    path: bytes = scope.get("raw_path") or scope["path"].encode("utf-8")
    query: bytes = scope.get("query_string", b"")
    location = url + path.decode("latin-1") + (f"?{query.decode('latin-1')}" if query else "")
    return Problem(
        "NOT_COORDINATOR",
        f"group {group_id} is owned by the coordinator at {url}: ask that one",
        status=MOVED,
        headers={"Location": location},
    )
