"""A caller who hangs up: nobody reads his answer, so nobody computes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeVar

from starlette.requests import Request

from assignor.errors import AssignorFault
from coordinator_api.groups.coordinator import Coordinator
from coordinator_api.http.problems import stopping
from coordinator_api.workers.worker_pool import PoolClosed

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


async def run_in_worker(
    request: Request, coordinator: Coordinator, function: Callable[..., Value], *arguments: object
) -> Value:
    """`function(*arguments)` in a worker process that is killed when the caller hangs up: raises CallerGone.

    Raises Problem when the service stops meanwhile.
    """
    try:
        return await unless_hung_up(request, coordinator.workers.computations.run(function, *arguments))
    except PoolClosed:
        raise stopping() from None
