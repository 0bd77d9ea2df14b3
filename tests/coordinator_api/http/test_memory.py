"""What was freed goes back to the operating system every few seconds."""

from __future__ import annotations

import threading

from coordinator_api.http.housekeeping import TRIM_EVERY_S, FreedMemory

BEGAN_S = 1_000.0


class Trim:
    """Stands for `malloc_trim`; it takes until `go_on` is set."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.threads: list[threading.Thread] = []
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Event()

    def __call__(self, pad: int) -> int:
        self.calls.append(pad)
        self.threads.append(threading.current_thread())
        self.begun.release()
        self.go_on.wait(60)
        return 1


async def test_should_give_back_all_that_is_free_every_few_seconds_beside_the_loop() -> None:
    trim = Trim()
    trim.go_on.set()
    memory = FreedMemory(trim)
    for tenths in range(5 * 10 * int(TRIM_EVERY_S) + 1):
        begun = memory.give_back_if_due(BEGAN_S + tenths / 10)
        if begun is not None:
            await begun

    assert trim.calls == [0] * 5
    assert threading.current_thread() not in trim.threads


async def test_should_not_begin_before_the_last_time_has_ended() -> None:
    trim = Trim()
    memory = FreedMemory(trim)
    for times in range(4):
        begun = memory.give_back_if_due(BEGAN_S + times * TRIM_EVERY_S)
    assert trim.begun.acquire(timeout=60)
    calls = len(trim.calls)
    trim.go_on.set()
    assert begun is not None
    await begun

    assert calls == 1
