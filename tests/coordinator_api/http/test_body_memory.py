"""The memory for the bodies of all requests: what counts for it, and that it is given back."""

import asyncio
from collections.abc import Iterable

import pytest
from starlette.types import Message, Receive, Scope

from coordinator_api.http.connections import CallerGone
from coordinator_api.http.middleware import BODIES_AT_ONE_TIME, SMALL_BYTES, RequestBodies
from coordinator_api.http.problems import Problem
from coordinator_api.settings import Settings

MAX_BYTES = 100_000
PUT: Scope = {"method": "PUT", "path": "/v1/groups/a", "headers": []}


@pytest.fixture
def bodies() -> RequestBodies:
    return RequestBodies(Settings(request_max_bytes=MAX_BYTES, request_timeout_ms=60_000))


def body_of(pieces: Iterable[bytes], *, ends: bool = True) -> Receive:
    """`ends`: whether the last piece ends the body. Otherwise nothing comes behind it."""
    left = list(pieces)

    async def receive() -> Message:
        if not left:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left) or not ends}

    return receive


async def fill(bodies: RequestBodies) -> list[bytes]:
    """As many of the largest bodies as there is memory for; one more is refused."""
    held = [await bodies.arrive(None, PUT, body_of([bytes(MAX_BYTES)])) for _ in range(BODIES_AT_ONE_TIME)]
    with pytest.raises(Problem, match="many large bodies are under way"):
        await bodies.arrive(None, PUT, body_of([bytes(MAX_BYTES)]))
    return held


async def test_should_take_a_small_body_in_one_piece_while_large_ones_have_all_memory(bodies: RequestBodies) -> None:
    await fill(bodies)

    assert await bodies.arrive(None, PUT, body_of([b"a heartbeat"])) == b"a heartbeat"
    with pytest.raises(Problem, match="many large bodies are under way"):
        await bodies.arrive(None, PUT, body_of([b"in ", b"pieces"]))


async def test_should_give_the_memory_back_however_a_body_ends(bodies: RequestBodies) -> None:
    for body in await fill(bodies):
        bodies.release(body)
    for small in ([b"whole"], [b"in ", b"pieces"], [bytes(SMALL_BYTES)], [b"x", bytes(SMALL_BYTES)]):
        bodies.release(await bodies.arrive(None, PUT, body_of(small)))
    with pytest.raises(Problem, match="a body may have 100000 bytes"):
        await bodies.arrive(None, PUT, body_of([bytes(MAX_BYTES), b"x"]))
    arriving = asyncio.create_task(bodies.arrive(None, PUT, body_of([bytes(MAX_BYTES)], ends=False)))
    await asyncio.sleep(0)
    arriving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await arriving
    messages: list[Message] = [{"type": "http.disconnect"}, {"type": "http.request", "body": b"x", "more_body": True}]

    async def receive() -> Message:
        return messages.pop()

    with pytest.raises(CallerGone):
        await bodies.arrive(None, PUT, receive)

    await fill(bodies)
