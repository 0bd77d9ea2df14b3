"""What the tasks of a stream thread tell, gathered until its process sends it: records may be dropped by millions."""

from __future__ import annotations

import threading

from streams_runtime.reporting.notices import NoticeCode
from streams_runtime.thread_processes.messages import ToldOfPlace


class GatheredNotices:
    """`Notices`. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told: dict[tuple[NoticeCode, str], ToldOfPlace] = {}

    def tell(self, code: NoticeCode, about: str, count: int, detail: str = "") -> None:
        with self._lock:
            before = self._told.get((code, about))
            if before is not None:
                count, detail = before.count + count, detail or before.detail
            self._told[code, about] = ToldOfPlace(code, about, count, detail)

    def take(self) -> tuple[ToldOfPlace, ...]:
        """What was told since the last call."""
        with self._lock:
            told = tuple(self._told.values())
            self._told.clear()
        return told
