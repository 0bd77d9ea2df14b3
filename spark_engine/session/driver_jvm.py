"""Starts the JVM of Spark's driver by `spark-submit`, and ends it with all processes that it started.

PySpark can start it as well, but returns it only when it is ready, so a JVM whose start was interrupted could not be
ended. Here it is a child process of this program from the start. PySpark then connects to it as it does to the JVM of a
running `spark-submit`. Rules: the JVM is in a process group of its own, because Ctrl-C in a terminal is meant for the
driver, which drains the instances first. The JVM ends when its stdin is closed, so it never outlives the driver.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from spark_engine.session.interrupts import undisturbed
from spark_engine.session.spark_faults import SparkNotStarted, reason_in_log

EXIT_TIMEOUT_S = 20.0
_LOOK_INTERVAL_S = 0.05
_CONNECTION_FILE = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"


def is_inside_spark_submit() -> bool:
    """Whether `spark-submit` started this Python program, so that it has a JVM already."""
    return _PORT in os.environ


@contextlib.contextmanager
def driver_jvm(home: Path, arguments: Sequence[str], log: IO[bytes]) -> Iterator[Any]:
    """PySpark's gateway to a JVM that `home`/bin/spark-submit has started with these arguments.

    `log`: receives the output of the JVM. Raises SparkNotStarted with the reason in that output.
    """
    begin = log.seek(0, os.SEEK_END)
    with contextlib.ExitStack() as undo:
        with tempfile.TemporaryDirectory(prefix="spark-connection-") as directory:
            connection = Path(directory) / "connection"
            with undisturbed():  # an interrupted Popen may leave a process that this program has no handle of
                process = subprocess.Popen(  # noqa: S603
                    [str(home / "bin" / "spark-submit"), *arguments, "pyspark-shell"],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, "SPARK_CONNECT_MODE": "0", _CONNECTION_FILE: str(connection)},
                    process_group=0,
                )
                undo.callback(_end, process)
            while not connection.is_file():
                if process.poll() is not None:
                    raise SparkNotStarted(reason_in_log(_new_output(Path(log.name), begin)))
                time.sleep(_LOOK_INTERVAL_S)
            gateway = _connected(connection)
        undo.callback(_end_gently, process, gateway)
        yield gateway


def _connected(connection: Path) -> Any:
    with connection.open("rb") as file:
        port = read_int(file)  # type: ignore[no-untyped-call]
        secret = UTF8Deserializer().loads(file)  # type: ignore[no-untyped-call]
    os.environ.update({_PORT: str(port), _SECRET: secret})
    try:
        return launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        del os.environ[_PORT], os.environ[_SECRET]


def _end_gently(process: subprocess.Popen[bytes], gateway: Any) -> None:
    """End the JVM by closing its stdin.

    PySpark keeps its gateway for the life of the process; the next session may use another Java and directory.
    """
    with contextlib.suppress(Exception):  # closing a gateway whose JVM has ended raises, and the JVM should end
        gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    assert process.stdin is not None, "it is a pipe"
    with contextlib.suppress(OSError):
        process.stdin.close()  # the JVM ends when this pipe is closed
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(EXIT_TIMEOUT_S)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the JVM and the other processes of its group, such as executors."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _new_output(log: Path, begin: int) -> str:
    with log.open("rb") as file:
        file.seek(begin)
        return file.read().decode("utf-8", "replace")
