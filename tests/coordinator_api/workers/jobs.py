"""What tests have worker processes do."""

import os
import signal
import threading
from pathlib import Path
from typing import NoReturn

from assignor.errors import StreamsError, TopologyError

_held: list[object] = []


def process() -> int:
    return os.getpid()


def echo(value: object) -> object:
    return value


def niceness() -> int:
    return os.nice(0)


def raise_it(fault: BaseException) -> NoReturn:
    raise fault


def raise_with_cause() -> NoReturn:
    raise StreamsError("outer") from TopologyError("inner")


class NotPicklable(Exception):
    def __init__(self) -> None:
        super().__init__("it holds a lock")
        self.lock = threading.Lock()


def raise_not_picklable() -> NoReturn:
    raise NotPicklable


def return_not_picklable() -> object:
    return threading.Lock()


class Unreadable:
    """Pickled in a worker, it cannot be read in the serving process."""

    def __reduce__(self) -> tuple[object, ...]:
        return _only_in, (os.getpid(),)


def _only_in(process: int) -> int:
    if process != os.getpid():
        raise TypeError("in another process")
    return process


def return_unreadable() -> object:
    return Unreadable()


def spin() -> None:
    while True:
        pass


def hold(fifo: Path) -> None:
    """Say through the fifo that the job runs, and keep it open until this process ends, which is never by itself."""
    with fifo.open("wb", buffering=0) as file:
        file.write(b"%d\n" % os.getpid())
        while True:
            pass  # a pure computation, which only another thread or a signal can end


def die(number: int) -> None:
    os.kill(os.getpid(), number)


def leave(code: int) -> None:
    os._exit(code)


def ignore_the_terminal() -> str:
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
    return "still here"


def grow(size: int) -> int:
    _held.append(bytes(1) * size)
    return os.getpid()


def free_pieces(number: int, size: int) -> None:
    """Make so many pieces and free all but the last, which keeps the heap from shrinking by itself."""
    pieces = [bytes(size) for _ in range(number)]
    _held.append(pieces[-1])


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
