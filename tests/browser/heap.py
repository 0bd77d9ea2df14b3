"""How much memory a page has, after everything that can be forgotten is."""

from dataclasses import dataclass

from playwright.sync_api import CDPSession, Page

_ROUNDS = 3  # what one collection frees may hold on to something else


@dataclass(frozen=True, slots=True)
class Heap:
    """`bytes_used`: of JavaScript. The counts are of DOM nodes and of listeners, which hold memory outside of it."""

    bytes_used: int
    nodes: int
    listeners: int


def heap_of(page: Page) -> Heap:
    """After forced garbage collection, by the browser's own debugging protocol."""
    session = page.context.new_cdp_session(page)
    try:
        session.send("HeapProfiler.enable")
        session.send("Performance.enable")
        for _ in range(_ROUNDS):
            session.send("HeapProfiler.collectGarbage")
        return Heap(int(session.send("Runtime.getHeapUsage")["usedSize"]), *_counts(session))
    finally:
        session.detach()


def _counts(session: CDPSession) -> tuple[int, int]:
    counters = session.send("Memory.getDOMCounters")
    return int(counters["nodes"]), int(counters["jsEventListeners"])
