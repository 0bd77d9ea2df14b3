"""Runs asyncio tasks that their caller starts and does not await."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

Value = TypeVar("Value")


class BackgroundTasks:
    """Keeps a reference to each task until the task is done, because the event loop has only weak references."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[object]] = set()

    def start(self, work: Coroutine[object, object, Value]) -> asyncio.Task[Value]:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task
