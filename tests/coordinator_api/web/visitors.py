"""A browser without a window: it keeps cookies, follows nothing, and sends what browsers send with forms."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
from bs4 import BeautifulSoup
from fastapi import FastAPI

from coordinator_api.http.call_rights import SESSION_COOKIE, cookie_value
from tests.coordinator_api.group_members import definition
from tests.coordinator_api.http.tenants import Tenants, join_body

HTML = {"Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}
FROM_HERE = {"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1"}


async def browser_of(service: Tenants, token: str) -> httpx.AsyncClient:
    """Somebody who has logged in with the token."""
    client = await service.client(None)
    client.headers.update(HTML)
    client.cookies.set(SESSION_COOKIE, cookie_value(token.encode()), path="/ui")
    return client


async def declared(service: Tenants, *group_ids: str) -> httpx.AsyncClient:
    """Declares them; gives the operator who did."""
    olga = await service.client("olga")
    for group_id in group_ids:
        assert (await olga.put(f"/v1/groups/{group_id}", json=definition())).status_code == 201
    return olga


async def settled_member(service: Tenants, group_id: str, **join: object) -> str:
    """The id of the only member of a new group, which has fetched its tasks."""
    olga = await declared(service, group_id)
    joined = await olga.post(f"/v1/groups/{group_id}/subscriptions", json=join_body(**join))
    assert joined.status_code == 201
    member_id = str(joined.json()["member_id"])
    path = f"/v1/groups/{group_id}/members/{member_id}/assignment"
    assert (await olga.get(path, params={"min_generation": 1, "wait_ms": 30_000})).status_code == 200
    return member_id


def soup(answer: httpx.Response) -> BeautifulSoup:
    return BeautifulSoup(answer.text, "html.parser")


def goes_to(answer: httpx.Response) -> str:
    """Where a browser goes on to, or a link leads: path and query."""
    return address_from(answer, answer.headers.get("location") or answer.headers["hx-redirect"])


def address_from(answer: httpx.Response, reference: object) -> str:
    """Of a link on this page."""
    return answer.url.join(str(reference)).raw_path.decode("ascii")


def form_token(answer: httpx.Response) -> str:
    """What the forms of a page carry."""
    field = soup(answer).select_one("input[name=form_token]")
    assert field is not None, answer.text
    return str(field["value"])


async def send_form(
    client: httpx.AsyncClient, path: str, fields: Mapping[str, str], headers: Mapping[str, str] = FROM_HERE
) -> httpx.Response:
    return await client.post(path, data=dict(fields), headers={**HTML, **headers})


async def log_in(client: httpx.AsyncClient, token: str, next: str = "") -> httpx.Response:
    """By the form, as a person does."""
    form = await client.get("/ui/login", headers=HTML)
    return await send_form(client, "/ui/login", {"token": token, "next": next, "form_token": form_token(form)})


class Stream:
    """An event stream that is being read."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._text = ""
        self._pieces: asyncio.Queue[str | None] = asyncio.Queue()

    async def next(self) -> str:
        """The next block: a comment, or an event with its data; empty when the stream has ended."""
        while "\n\n" not in self._text:
            piece = await asyncio.wait_for(self._pieces.get(), 60)
            if piece is None:
                return ""
            self._text += piece
        block, _, self._text = self._text.partition("\n\n")
        return block

    async def take(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            return
        if message.get("body"):
            self._pieces.put_nowait(message["body"].decode())
        if not message.get("more_body"):
            self._pieces.put_nowait(None)


@asynccontextmanager
async def streaming(app: FastAPI, path: str, headers: Mapping[str, str] | None = None) -> AsyncIterator[Stream]:
    """The application's own answer, piece by piece; hangs up at the end of the block."""
    stream, hung_up, asked = Stream(), asyncio.Event(), False

    async def receive() -> dict[str, Any]:
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await hung_up.wait()
        return {"type": "http.disconnect"}

    sent = {"host": "127.0.0.1", "accept": "text/event-stream", **(headers or {})}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        "client": ("198.51.100.7", 1),
        "server": ("127.0.0.1", 80),
    }
    answering = asyncio.create_task(app(scope, receive, stream.take))
    try:
        yield stream
    finally:
        hung_up.set()
        await asyncio.wait_for(answering, 60)
