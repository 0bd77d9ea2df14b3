"""Memory that a burst of work has freed goes back to the operating system. The C library is known here only.

glibc keeps what is freed: the pieces of a thousand answers stay in the process's memory after the callers have gone,
and so do blocks that were large once. What is not glibc has its own ways, and is left alone.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from contextlib import suppress

TRIM_EVERY_S = 5.0

_M_MMAP_THRESHOLD = -3
_LARGE_BYTES = 262_144


def give_large_blocks_back() -> None:
    """Let every block above a size be one of the operating system, which gets it back when it is freed.

    glibc raises that size up to 32 MB by itself, with the blocks that it sees freed. From then on the bodies that were
    large once stay in the process's memory.
    """
    mallopt = _function("mallopt")
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


class FreedMemory:
    """`give_back_if_due` often, on the event loop. `trim`: gives it back; `malloc_trim`, None where there is none."""

    def __init__(self, trim: Callable[[int], object] | None = None) -> None:
        self._trim = _function("malloc_trim") if trim is None else trim
        self._next_s: float | None = None
        self._trimming: asyncio.Future[object] | None = None

    def give_back_if_due(self, now_s: float) -> None:
        """In a thread: it takes milliseconds after a burst, without the interpreter lock."""
        if self._next_s is None:
            self._next_s = now_s + TRIM_EVERY_S
        busy = self._trimming is not None and not self._trimming.done()
        if self._trim is None or busy or now_s < self._next_s:
            return
        self._next_s = now_s + TRIM_EVERY_S
        self._trimming = asyncio.get_running_loop().run_in_executor(None, self._trim, 0)

    async def given_back(self) -> None:
        """Returns when what has been begun has ended."""
        if self._trimming is not None:
            await self._trimming


def _function(name: str) -> Callable[..., int] | None:
    with suppress(OSError, AttributeError):
        found: Callable[..., int] = getattr(ctypes.CDLL(None), name)
        return found
    return None
