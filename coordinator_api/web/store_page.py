"""`/ui/groups/{group}/stores`: queries the instances for the value of one key in a store (page.store.queries=on).

The service, not the browser, calls the instances. A call goes only to an address that a member of this group reports
for its own instance. A call to an instance is one GET of a fixed path. A call follows no redirect. The duration of a
query, the number of its calls and the size of an answer are limited. A call goes to the resolved address that was
checked, and never to link-local or multicast addresses. A call carries the service's own token for instances. A call
never carries the token of the user.
"""

import asyncio
import ipaddress
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from fastapi import Request
from starlette.responses import Response

from assignor.errors import AssignorFault, InputError
from coordinator_api.http.connections import unless_hung_up
from coordinator_api.http.dependencies import GroupId, TheCoordinator, named_router, whole_number
from coordinator_api.web.group_documents import TheDocument
from coordinator_api.web.rendering import page
from coordinator_client.access.token_files import token_in

router = named_router(include_in_schema=False)

LONGEST_KEY = 2_000
LONGEST_LAG = 10**12
LONGEST_CALL_S = 2.0
LONGEST_QUERY_S = 6.0
MOST_CALLS = 8
MOST_BYTES = 65_536
_ENDPOINT = re.compile(r"[A-Za-z0-9._-]+:\d{1,5}|\[[0-9A-Fa-f:.]+\]:\d{1,5}")
_ASK_ANOTHER = ("INVALID_STATE_STORE_PARTITION", "STORE_NOT_READY", "STALE_STORE")


@router.get("/ui/groups/{group}/stores")
async def stores(request: Request, group_id: GroupId, coordinator: TheCoordinator, document: TheDocument) -> Response:
    """The page with the form for a query. If the address contains a key, the page also shows the answer to the
    query.
    """
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
    """The mistake in a query, as a sentence; None if the query is valid."""
    if store not in names:
        return "Choose one of the stores of this group."
    if not key or len(key) > LONGEST_KEY:
        return f"Enter a key of up to {LONGEST_KEY:,} characters."
    if lag and whole_number(lag, LONGEST_LAG) is None:
        return "The lag must be a whole number of records, or empty."
    return None


class StoreUnanswered(AssignorFault):
    """No instance answered the query. The message has the reason. `tried`: the error of each called instance, by the
    instance's address.
    """

    def __init__(self, message: str, tried: Mapping[str, str]) -> None:
        super().__init__(message)
        self.tried = dict(tried)


@dataclass(frozen=True, slots=True)
class StoreAnswer:
    """The answer of an instance. `value`: JSON text, or base64 if JSON cannot represent the value; None if the store
    does not have the key. `lag`: the lag of the task copy that answered, in records.
    """

    value: str | None
    is_base64: bool
    timestamp_ms: int | None
    host: str
    task: str
    role: str
    lag: int | None


def endpoints_of(document: Mapping[str, Any]) -> list[str]:
    """The addresses of a group's instances, as its members report them. `document`: the answer of `GET
    /v1/groups/{group}`.
    """
    known = dict.fromkeys(member["user_endpoint"] for member in document["members"] if member["away_until_ms"] is None)
    return [each for each in known if each is not None and _ENDPOINT.fullmatch(each)]


async def ask_by_key(
    endpoints: Iterable[str], application_id: str, store: str, key: str, max_lag: int | None, token_file: Path | None
) -> StoreAnswer:
    """Queries a store by key. `application_id`: the application id of the group. Answers from instances of other
    applications are refused. `max_lag`: the largest lag of a task copy that may answer; None if only the active task
    may answer. Raises StoreUnanswered.
    """
    known = list(endpoints)
    if not known:
        raise StoreUnanswered("no instance of this group reports an address: set application.server", {})
    parameters = {"key": key} if max_lag is None else {"key": key, "max_lag": str(max_lag)}
    # request an uncompressed answer, because MOST_BYTES would not limit the expanded size of a compressed answer
    headers = {"Accept-Encoding": "identity"}
    if token_file is not None:
        headers["Authorization"] = f"Bearer {await asyncio.to_thread(_token, token_file)}"
    tried: dict[str, str] = {}
    try:
        async with (
            asyncio.timeout(LONGEST_QUERY_S),
            httpx.AsyncClient(trust_env=False, timeout=LONGEST_CALL_S, headers=headers) as client,
        ):
            to_ask = known[:]
            while to_ask and len(tried) < MOST_CALLS:
                host = to_ask.pop(0)
                status, answer = await _call(client, host, store, parameters)
                if status == 200 and answer.get("application_id") == application_id and "value_base64" in answer:
                    return _answer(host, answer)
                code = str(answer.get("code", status))
                tried[host] = str(answer.get("detail") or f"status {status}")
                if status == 200:
                    tried[host] = "answers, but not as an instance of this application does"
                elif status != 0 and code not in _ASK_ANOTHER:
                    raise StoreUnanswered(tried[host], tried)
                named = answer.get("active")
                if isinstance(named, str) and named in known and named not in tried:
                    to_ask = [named, *(each for each in to_ask if each != named)]
    except TimeoutError:
        raise StoreUnanswered(f"no answer within {LONGEST_QUERY_S:.0f} s", tried) from None
    raise StoreUnanswered("no instance can answer now: the task moves or restores, or its instance is gone", tried)


async def _call(
    client: httpx.AsyncClient, host: str, store: str, parameters: Mapping[str, str]
) -> tuple[int, Mapping[str, Any]]:
    """Calls one instance. Returns the status and the answer. The status is 0 if the instance cannot be reached or its
    answer is not JSON.
    """
    try:
        url = f"http://{await _dialed(host)}/v1/stores/{quote(store, safe='')}/key"
        async with client.stream("GET", url, params=parameters, headers={"Host": host}) as response:
            body = b""
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > MOST_BYTES:
                    raise StoreUnanswered(f"the answer of {host} is longer than {MOST_BYTES:,} bytes", {})
            found = json.loads(body)
    except (httpx.HTTPError, OSError) as error:
        return 0, {"detail": f"cannot be reached: {error or type(error).__name__}"}
    except (ValueError, RecursionError):
        return 0, {"detail": "answers, but not as an instance does"}
    return response.status_code, found if isinstance(found, dict) else {}


async def _dialed(endpoint: str) -> str:
    """Returns the IP address and port to call. The host name is resolved only once. So the service calls exactly the
    address that it has checked. Raises OSError.
    """
    host, _, port = endpoint.rpartition(":")
    if not 0 < int(port) < 65_536:
        raise OSError(f"{port} is no port")
    found = await asyncio.get_running_loop().getaddrinfo(host.strip("[]"), int(port))
    address = ipaddress.ip_address(found[0][4][0])
    # Python does not recognize a link-local IPv4 address that is written as IPv6
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        raise OSError(f"{address} is no address of an instance")
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


def _answer(host: str, answer: Mapping[str, Any]) -> StoreAnswer:
    raw, value = answer["value_base64"], answer.get("value")
    is_base64 = raw is not None and value is None
    shown = None if raw is None else str(raw) if is_base64 else json.dumps(value, ensure_ascii=False)
    lag, timestamp_ms = answer.get("lag"), answer.get("timestamp_ms")
    return StoreAnswer(
        shown,
        is_base64,
        timestamp_ms if isinstance(timestamp_ms, int) else None,
        host,
        str(answer.get("task", "")),
        str(answer.get("role", "")),
        lag if isinstance(lag, int) else None,
    )


def _token(file: Path) -> str:
    try:
        return token_in(file, "page.store.token.file")
    except InputError as error:
        raise StoreUnanswered(str(error), {}) from None
