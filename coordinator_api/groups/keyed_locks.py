"""One lock for each key, that exists only while somebody holds it or waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Used:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class KeyedLocks:
    """On one event loop."""

    def __init__(self) -> None:
        self._used: dict[str, _Used] = {}

    def held(self) -> Set[str]:
        """The keys that somebody holds or waits for."""
        return self._used.keys()

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """Waits for those who came before, for this key only."""
        used = self._used.setdefault(key, _Used())
        used.users += 1
        try:
            async with used.lock:
                yield
        finally:
            used.users -= 1
            if not used.users:
                del self._used[key]
