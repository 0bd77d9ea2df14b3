"""Many calls of one kind, made in a process of its own. A connection sends its next call as soon as it has the answer;
or all together send so many a second.
"""

import asyncio
import multiprocessing
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, Self, TypeVar

import uvloop

P = ParamSpec("P")
T = TypeVar("T")

Call = Callable[[int], Awaitable[int]]
"""Makes the call of this number, and gives the status of its answer."""

AGAIN_AFTER_S = 0.1
_NOT_NOW = 503
_MOST_AGAIN = 300


@dataclass(frozen=True, slots=True)
class Driven:
    """What the calls took: `seconds` all of them, `milliseconds` each. `again`: how often the answer was 503, as when a
    coordinator's lease has ended because the machine is too busy. Such a call is made again, and takes that longer.
    """

    seconds: float
    milliseconds: tuple[float, ...]
    again: int


async def drive(call: Call, count: int, at_once: int, rate: float | None = None) -> Driven:
    """`count` calls, at most `at_once` under way. `rate`: so many are sent a second, None: as many as are answered.

    Raises RuntimeError for an answer that is no success: refusals are cheaper than what is measured.
    """
    numbers = iter(range(count))
    milliseconds: list[float] = []
    again = 0
    begun = time.perf_counter()

    async def one_after_the_other() -> None:
        nonlocal again
        for number in numbers:
            if rate is not None:
                await asyncio.sleep(begun + number / rate - time.perf_counter())
            sent = time.perf_counter()
            while (status := await call(number)) == _NOT_NOW and again < _MOST_AGAIN:
                again += 1
                await asyncio.sleep(AGAIN_AFTER_S)
            milliseconds.append((time.perf_counter() - sent) * 1_000)
            if not 200 <= status < 300:
                raise RuntimeError(f"call {number} was answered with status {status}")

    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(at_once, count)):
            tasks.create_task(one_after_the_other())
    return Driven(time.perf_counter() - begun, tuple(milliseconds), again)


class Driver:
    """The process, as a context manager. It runs one piece of work after the other."""

    def __enter__(self) -> Self:
        self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        self._pool.submit(time.perf_counter).result()  # it has started
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def run(self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """`work`: of a module, with arguments that can be pickled."""
        return self._pool.submit(_run, partial(work, *args, **kwargs)).result()


def _run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return uvloop.run(work())
