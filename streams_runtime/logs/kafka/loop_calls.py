"""Calls plain functions in the event loop without waiting for them, which is cheaper than a coroutine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kafka_client.event_loop import EventLoopThread


def in_loop(thread: EventLoopThread) -> Callable[..., object]:
    """`call(function, *arguments)`, from any thread, in order. Starts the loop."""

    async def running() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    return thread.run(running()).call_soon_threadsafe
