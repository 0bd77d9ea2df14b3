"""Plain functions handed to the event loop's thread without waiting for them: cheaper than a coroutine's round trip."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kafka_client.event_loop import EventLoopThread


def in_loop(thread: EventLoopThread) -> Callable[..., object]:
    """`call(function, *arguments)`, from any thread, in order. Starts the loop."""

    async def running() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    return thread.run(running()).call_soon_threadsafe
