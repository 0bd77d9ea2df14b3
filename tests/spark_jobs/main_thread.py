"""What the main thread of the test's process is doing, seen from another one."""

import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_LOOK_INTERVAL_S = 0.001


@contextmanager
def once_inside(function: Callable[..., Any], action: Callable[[], None]) -> Iterator[None]:
    """While the context lasts another thread waits for the main thread to be inside of `function`, and acts then."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_LOOK_INTERVAL_S):
            if _is_inside(function):
                time.sleep(_LOOK_INTERVAL_S)  # gives up the interpreter, so that the main thread gets to its wait
                action()
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _is_inside(function: Callable[..., Any]) -> bool:
    identifier = threading.main_thread().ident
    assert identifier is not None, "it runs"
    frame = _frames().get(identifier)
    while frame is not None and frame.f_code is not function.__code__:
        frame = frame.f_back
    return frame is not None


def _frames() -> dict[int, FrameType]:
    """Without a garbage collection in it: CPython holds a lock that the end of a `threading.local` waits for."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if collects:
            gc.enable()
