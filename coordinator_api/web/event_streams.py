"""Server-sent events: a page is told that what it shows has changed, and fetches that anew.

    : hello                 at once, and then every 15 s, so that a broken connection is noticed
    event: changed          with a digest of what there is to see now; a page that shows it already does nothing
    data: 1c0ffee…

A stream begins with the digest, so a page that missed something mends itself. There may be so many streams at one time
(`page.events.max.count`); each ends when the service stops, or when its caller's token counts no longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager, aclosing

from fastapi import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from coordinator_api.groups.admission import Admission
from coordinator_api.groups.held_requests import Watcher
from coordinator_api.http.call_rights import Gate
from coordinator_api.http.problems import Problem
from coordinator_api.web.rendering import SECURITY_HEADERS

HEARTBEAT_S = 15.0
RETRY_MS = 2_000
SHORTEST_PAUSE_S = 0.2
"""Between two messages of one stream: a page need not be fetched more often."""

LOOK_EVERY_S = 1.0
"""How often something is looked at that may change without a commit."""

LONGEST_PAUSE_S = 2.0

Digests = Callable[[], AsyncGenerator[str | None, None]]
"""Digests of what a page shows: whenever it may be another one, and at least every HEARTBEAT_S. None for nothing new.
The iteration ends when the service stops.
"""


async def digests_of(
    watched: AbstractContextManager[Watcher], digest: Callable[[], Awaitable[str | None]]
) -> AsyncGenerator[str | None, None]:
    """The digest now, after each commit that `watched` is told of, and once a second; with pauses that leave three
    quarters of the time to others.
    """
    loop = asyncio.get_running_loop()
    with watched as watcher:
        while not watcher.released:
            began_s = loop.time()
            found = await digest()
            took_s = loop.time() - began_s
            yield found
            await watcher.pause(min(max(SHORTEST_PAUSE_S, 3 * took_s), LONGEST_PAUSE_S))
            await watcher.wait(LOOK_EVERY_S)


class EventStream(Response):
    """`admission`: counts this stream while it is open. `still_known`: whether its caller's token counts."""

    media_type = "text/event-stream"

    def __init__(self, digests: Digests, admission: Admission, still_known: Callable[[], bool]) -> None:
        headers = {**SECURITY_HEADERS, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(headers=headers)
        del self.headers["content-length"]
        self._digests = digests
        self._admission = admission
        self._still_known = still_known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._admission.one():
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            sending = asyncio.ensure_future(self._send_all(send))
            gone = asyncio.ensure_future(_hung_up(receive))
            try:
                await asyncio.wait((sending, gone), return_when=asyncio.FIRST_COMPLETED)
                if sending.done():
                    sending.result()
            finally:
                gone.cancel()
                sending.cancel()
                await asyncio.wait((sending, gone))
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all(self, send: Send) -> None:
        async def say(text: str) -> None:
            await send({"type": "http.response.body", "body": text.encode("ascii"), "more_body": True})

        await say(f": hello\nretry: {RETRY_MS}\n\n")
        loop = asyncio.get_running_loop()
        said, last_s = None, loop.time()
        async with aclosing(self._digests()) as digests:
            async for digest in digests:
                if not self._still_known():
                    return
                if digest is not None and digest != said:
                    said, last_s = digest, loop.time()
                    await say(f"event: changed\ndata: {digest}\n\n")
                elif loop.time() - last_s >= HEARTBEAT_S:
                    last_s = loop.time()
                    await say(": still here\n\n")


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def event_stream(request: Request, digests: Digests) -> Response:
    """The stream for this caller. Raises TooManyRequests when there are enough."""
    admission: Admission = request.app.state.page_streams
    gate = Gate(request.app.state.access.credentials)
    path, headers = request.url.path, request.headers

    def still_known() -> bool:
        try:
            gate.check("GET", path, headers)
        except Problem:
            return False
        return True

    with admission.one():
        return EventStream(digests, admission, still_known)
