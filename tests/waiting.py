"""Waiting for a state that no event announces, for example one of another process."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    holds: Callable[[], T],
    what: str | Callable[[], object],
    within_s: float = 60.0,
    every_s: float = 0.02,
    alive: Callable[[], bool] = lambda: True,
) -> T:
    """Returns the first true answer of `holds`.

    Fails after `within_s` seconds, or as soon as `alive` answers False, and names `what` did not come.
    """
    ends_at = time.monotonic() + within_s
    while True:
        # asked first: a process may end just after it did what is awaited
        lives = alive()
        if answer := holds():
            return answer
        assert lives, f"the awaited process ended: {what() if callable(what) else what}"
        assert time.monotonic() < ends_at, f"not within {within_s:g} s: {what() if callable(what) else what}"
        time.sleep(every_s)
