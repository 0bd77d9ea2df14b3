"""What `replay` and `sweep` share on the command line: which engine, and being ended by SIGTERM as by Ctrl-C."""

from __future__ import annotations

import contextlib
import importlib.util
import signal
import threading
from collections.abc import Iterator
from enum import StrEnum
from types import FrameType
from typing import Annotated, NamedTuple

import typer

from assignor.commands.console import EXIT_NO, leave
from assignor.errors import InputError


class RunBy(StrEnum):
    """`Engine`, named here too because that one comes with Arrow, which is loaded when a command runs."""

    SPARK = "spark"
    LOCAL = "local"


class Runner(NamedTuple):
    """Who does the work. `master`: of Spark; `cores`: processes of `--engine local`, None for all of the machine.
    `restart`: throw away what an earlier run has left.
    """

    engine: RunBy
    master: str
    cores: int | None
    restart: bool


def runner_from_options(
    *,
    engine: Annotated[
        RunBy, typer.Option("--engine", help="Spark, or processes of this machine: the same rows either way.")
    ] = RunBy.SPARK,
    master: Annotated[
        str, typer.Option("--master", help="Spark master: local[*], local-cluster[..], spark://.., ...")
    ] = "local[*]",
    cores: Annotated[
        int | None, typer.Option("--cores", min=1, help="Processes of --engine local; default: all cores.")
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Throw away what an earlier run has left in DIR.")] = False,
) -> Runner:
    """Raises InputError for Spark without PySpark."""
    if engine is RunBy.SPARK and importlib.util.find_spec("pyspark") is None:
        raise InputError("spark is not installed: pip install 'assignor[spark]', or say --engine local", "--engine")
    return Runner(engine, master, cores, restart)


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
