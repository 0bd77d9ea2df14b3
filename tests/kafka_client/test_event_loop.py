"""One event loop for callers that are threads: results, time-outs, closing, and a fork in between."""

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafka_client.event_loop import EventLoopThread


async def thread_after(seconds: float) -> int:
    await asyncio.sleep(seconds)
    return threading.get_ident()


def test_should_run_what_several_threads_ask_for_in_one_loop() -> None:
    loop = EventLoopThread()

    with ThreadPoolExecutor(8) as callers:
        threads = set(callers.map(lambda _: loop.run(thread_after(0.01)), range(32)))

    assert len(threads) == 1
    assert threading.get_ident() not in threads
    loop.close()


def test_should_raise_what_the_coroutine_raises() -> None:
    loop = EventLoopThread()

    async def failing() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        loop.run(failing())
    loop.close()


def test_should_end_waiting_callers_when_it_is_closed() -> None:
    loop = EventLoopThread()
    began = threading.Event()

    async def endless() -> None:
        began.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as callers:
        waiting = callers.submit(loop.run, endless())
        assert began.wait(5)
        loop.close()
        with pytest.raises(RuntimeError, match="was closed"):
            waiting.result(5)
    with pytest.raises(RuntimeError, match="is closed"):
        loop.run(thread_after(0))
    loop.close()


def test_should_refuse_to_wait_in_its_own_thread() -> None:
    loop = EventLoopThread()

    async def nested() -> int:
        return loop.run(thread_after(0))

    with pytest.raises(RuntimeError, match="would never end"):
        loop.run(nested())
    loop.close()


def test_should_have_a_loop_of_its_own_in_the_child_of_a_fork() -> None:
    loop = EventLoopThread()
    before = loop.run(thread_after(0))

    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(30)  # a child that hangs must not hang the test
            loop.run(thread_after(0.01))
            loop.close()
            code = 0
        finally:
            os._exit(code)

    assert os.waitpid(child, 0)[1] == 0
    assert loop.run(thread_after(0.01)) == before
    loop.close()
