"""Requests for an assignment that is not there yet, held until the group has changed (long poll)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from coordinator_api.group.events import Event, FetchAssignment, RecheckAssignment
from coordinator_api.group.outcome import AssignmentPending, Response

Ask = Callable[[Event], Awaitable[Response]]
"""Hands an event to the group."""


class HeldRequests:
    """The held requests of one group. `wake` after every change that may alter the answer to one of them."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._changed = asyncio.Event()
        self._released = False

    async def answer(self, fetch: FetchAssignment, wait_s: float, gone: Callable[[], Awaitable[object]]) -> Response:
        """Answer `fetch`, held up to `wait_s` seconds while the assignment is pending, or until `gone()` returns."""
        changed = self._changed
        response = await self._ask(fetch)
        if not isinstance(response, AssignmentPending) or wait_s <= 0:
            return response
        recheck = RecheckAssignment(fetch.member_id, fetch.min_generation, fetch.group_instance_id)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + wait_s
        hang_up = asyncio.ensure_future(gone())
        try:
            while isinstance(response, AssignmentPending) and not hang_up.done() and not self._released:
                left_s = deadline_s - loop.time()
                if left_s <= 0:
                    break
                woken = asyncio.ensure_future(changed.wait())
                await asyncio.wait((woken, hang_up), timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
                woken.cancel()
                # taken before the group is asked, so that no change between the two is missed
                changed = self._changed
                response = await self._ask(recheck)
        finally:
            hang_up.cancel()
        return response

    def wake(self) -> None:
        """Ask the group again on behalf of every held request."""
        self._changed.set()
        self._changed = asyncio.Event()

    def release(self) -> None:
        """Hold no request any longer: answer each as the group stands now."""
        self._released = True
        self.wake()
