"""What was freed goes back to the operating system every few seconds."""

from __future__ import annotations

import threading

from coordinator_api.http.housekeeping import TRIM_EVERY_S, FreedMemory

BEGAN_S = 1_000.0


class GiveBack:
    """Stands for `return_freed_memory`; it takes until `go_on` is set."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Event()

    def __call__(self) -> None:
        self.threads.append(threading.current_thread())
        self.begun.release()
        self.go_on.wait(60)


async def test_should_give_back_all_that_is_free_every_few_seconds_beside_the_loop() -> None:
    give_back = GiveBack()
    give_back.go_on.set()
    memory = FreedMemory(give_back)
    for tenths in range(5 * 10 * int(TRIM_EVERY_S)):
        begun = memory.give_back_if_due(BEGAN_S + tenths / 10)
        if begun is not None:
            await begun

    assert len(give_back.threads) == 5
    assert threading.current_thread() not in give_back.threads


async def test_should_not_begin_before_the_last_time_has_ended() -> None:
    give_back = GiveBack()
    memory = FreedMemory(give_back)
    for times in range(4):
        begun = memory.give_back_if_due(BEGAN_S + times * TRIM_EVERY_S)
    assert give_back.begun.acquire(timeout=60)
    calls = len(give_back.threads)
    give_back.go_on.set()
    assert begun is not None
    await begun

    assert calls == 1
