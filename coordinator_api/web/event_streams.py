"""Server-sent events, by which the service reports that the content of a page has changed. After an event, the page
fetches its content again.

- `: hello` is sent at once. A comment follows after 15 s without events, so that a broken connection is noticed.
- `event: changed` is sent with a digest of the present content, such as `data: 1c0ffee`. If a page already shows the
  present content, the page does nothing.

A stream begins with the digest of the present content. A page may lose its stream for a while. When the page has a
stream again, it compares the digest with the digest of its own content. If the digests differ, the page fetches the
present content. The number of streams is limited (`page.events.max.count`). A stream ends when the service stops, or
when its caller's token becomes invalid.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager, aclosing

from fastapi import Request
from starlette.responses import Response, StreamingResponse

from coordinator_api.errors import CoordinatorFault, TooManyRequests
from coordinator_api.group.image import GroupImage
from coordinator_api.http.call_rights import CALL, caller_of, need
from coordinator_api.http.connections import connection_of
from coordinator_api.http.problems import Problem
from coordinator_api.runtime.admission import Admission
from coordinator_api.runtime.coordinator import Coordinator
from coordinator_api.runtime.held_requests import Watcher
from coordinator_api.store.store_errors import StoreError
from coordinator_api.web.static_files import SECURITY_HEADERS
from coordinator_client.access.credentials import Credentials

HEARTBEAT_S = 15.0
RETRY_MS = 2_000
SHORTEST_PAUSE_S = 0.2
"""The shortest pause between two messages of one stream. More frequent updates of an open page are not useful."""

POLL_EVERY_S = 1.0
"""If no commit occurs in this time, the digest is computed again, because lags change without a commit."""

LONGEST_PAUSE_S = 2.0

Digests = Callable[[], AsyncGenerator[str | None, None]]
"""A function that yields digests of the content of a page. The function yields when the content may have changed, and
at least every HEARTBEAT_S. The function yields None if no new digest could be computed. The iteration ends when the
service stops.
"""


async def digests_of(
    watched: AbstractContextManager[Watcher], digest: Callable[[], Awaitable[str | None]]
) -> AsyncGenerator[str | None, None]:
    """Yields the digest immediately. Yields a new digest after each commit that `watched` reports, and about once a
    second. The pause after a digest is three times as long as the computation of the digest. The pause is at least
    SHORTEST_PAUSE_S and at most LONGEST_PAUSE_S.
    """
    loop = asyncio.get_running_loop()
    with watched as watcher:
        while not watcher.released:
            began_s = loop.time()
            try:
                found = await digest()
            except TooManyRequests:
                found = None
            except (CoordinatorFault, StoreError) as error:
                # Send the error's name in place of a digest. The page then fetches its content again, and shows the
                # error.
                found = type(error).__name__
            took_s = loop.time() - began_s
            yield found
            await watcher.pause(min(max(SHORTEST_PAUSE_S, 3 * took_s), LONGEST_PAUSE_S))
            await watcher.wait(POLL_EVERY_S)


async def _events(digests: Digests, admission: Admission, goes_on: Callable[[], bool]) -> AsyncGenerator[str, None]:
    """Yields the messages of a stream. `admission`: the counter of open streams. `goes_on`: a function that is called
    before each message; if it returns False, the stream ends.
    """
    with admission.one():
        yield f": hello\nretry: {RETRY_MS}\n\n"
        loop = asyncio.get_running_loop()
        sent, last_s = None, loop.time()
        async with aclosing(digests()) as found:
            async for digest in found:
                if not goes_on():
                    return
                if digest is not None and digest != sent:
                    sent, last_s = digest, loop.time()
                    yield f"event: changed\ndata: {digest}\n\n"
                elif loop.time() - last_s >= HEARTBEAT_S:
                    last_s = loop.time()
                    yield ": still here\n\n"


def event_stream(request: Request, digests: Digests) -> Response:
    """Returns a response that is an event stream for this caller. Raises TooManyRequests if too many streams are
    open.
    """
    admission: Admission = request.app.state.page_streams
    credentials: Credentials = request.app.state.access.credentials
    path, headers, connection = request.url.path, request.headers, connection_of(request)
    asked = need(request.scope["state"][CALL], path)

    def goes_on() -> bool:
        # uvicorn does not report that a connection broke if the connection has carried a further request
        if connection is not None and connection.gone is not None and connection.gone.is_set():
            return False
        try:
            return caller_of(path, headers, credentials).refusal(asked) is None
        except Problem:
            return False

    with admission.one():
        return StreamingResponse(
            _events(digests, admission, goes_on),
            headers={**SECURITY_HEADERS, "Cache-Control": "no-store", "X-Accel-Buffering": "no"},
            media_type="text/event-stream",
        )


def group_stream(
    request: Request, coordinator: Coordinator, group_id: str, digest: Callable[[], Awaitable[str]]
) -> Response:
    """Returns an event stream that sends `changed` when the group's digest changes. Raises GroupNotFound,
    TooManyRequests.
    """
    coordinator.group(group_id)
    return event_stream(request, lambda: digests_of(coordinator.watching.watch(group_id), digest))


def rebalances_digest(image: GroupImage) -> str:
    """Returns a text that changes when a rebalance has completed, or begins to wait for approval. The generation alone
    would not show a completed rebalance. A generation begins before its rebalance is computed and recorded.
    """
    last = image.last_rebalance
    ended = "none" if last is None else f"{last.generation_id}-{last.end.outcome}"
    return ended if image.held is None else f"{ended}-{image.generation_id}-held"
