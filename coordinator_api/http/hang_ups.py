"""A caller who hangs up: nobody reads his answer, so nobody computes it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from starlette.requests import Request

from assignor.errors import AssignorFault

Value = TypeVar("Value")


class CallerGone(AssignorFault):
    """The caller hung up before he had his answer."""


async def hung_up(request: Request) -> None:
    """Returns when the caller has hung up. The request's body has been read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def unless_hung_up(request: Request, work: Coroutine[object, object, Value]) -> Value:
    """What `work` returns or raises. It is cancelled when the caller hangs up: raises CallerGone."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(hung_up(request))
    try:
        await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise CallerGone("the caller hung up")
        return working.result()
    finally:
        gone.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait((working,))
