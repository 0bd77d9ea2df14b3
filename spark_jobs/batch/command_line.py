"""What `replay` and `sweep` share on the command line: which engine, and being ended by SIGTERM as by Ctrl-C."""

from __future__ import annotations

import contextlib
import importlib.util
import signal
import threading
from collections.abc import Iterator
from enum import StrEnum
from types import FrameType

from assignor.commands.console import EXIT_NO, leave
from assignor.errors import InputError


class RunBy(StrEnum):
    """`Engine`, named here too because that one comes with Arrow, which is loaded when a command runs."""

    SPARK = "spark"
    LOCAL = "local"

    def check_installed(self) -> None:
        """Raises InputError for Spark without PySpark."""
        if self is RunBy.SPARK and importlib.util.find_spec("pyspark") is None:
            raise InputError("spark is not installed: pip install 'assignor[spark]', or say --engine local", "--engine")


@contextlib.contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """SIGTERM unwinds like Ctrl-C, so that workers end and what is done is kept. Only a main thread hears of it."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, interrupt) if is_main else None
    try:
        yield
    except KeyboardInterrupt:
        leave(EXIT_NO)
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)
