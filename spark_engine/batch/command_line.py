"""The command-line options of `replay` and `sweep` that choose the engine, and the exit code of a run that ends
early.
"""

import contextlib
import importlib.util
from collections.abc import Iterator
from typing import Annotated

import typer

from assignor.errors import AssignorFault, InputError
from assignor.types import JAVA_INT_MAX
from assignor_cli.console import CannotFinish, exit_code_of_signal, leave
from spark_engine.batch import Engine, EngineChoice
from spark_engine.session.interrupts import interruptible


def engine_from_options(
    *,
    engine: Annotated[
        Engine, typer.Option("--engine", help="Run on Spark or in processes of this machine; the rows are the same.")
    ] = Engine.SPARK,
    master: Annotated[
        str, typer.Option("--master", help="Spark master: local[*], local-cluster[..], spark://.., ...")
    ] = "local[*]",
    cores: Annotated[
        int | None,
        typer.Option(
            "--cores", min=1, max=JAVA_INT_MAX, help="Number of processes of --engine local. Default: all cores."
        ),
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Discard the files of an earlier run in DIR.")] = False,
) -> EngineChoice:
    """Makes an EngineChoice from the command-line options. Raises InputError if the engine is Spark and PySpark is not
    installed.
    """
    if engine is Engine.SPARK and importlib.util.find_spec("pyspark") is None:
        raise InputError("spark is not installed: pip install 'assignor[spark]', or say --engine local", "--engine")
    return EngineChoice(engine, master, cores, restart)


@contextlib.contextmanager
def batch_run() -> Iterator[None]:
    """A context manager: in its block, Ctrl-C and SIGTERM end the worker processes. The command then exits with the
    exit code for the signal. The results of finished chunks are kept. If the engine fails, the exit code of the command
    is 2. Exit code 1 is not used here, because it reports a result of `replay` or `sweep`, such as a difference from a
    recording.
    """
    try:
        with interruptible():
            yield
    except KeyboardInterrupt as interrupt:
        leave(exit_code_of_signal(interrupt))
    except AssignorFault as fault:
        raise CannotFinish(str(fault)) from fault
