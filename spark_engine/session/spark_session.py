"""Starts a Spark session, and stops it together with all processes that it started.

The user can set Spark's settings in every way that spark-submit offers. This project never changes the user's settings.
This project only sets keys that have no value. Local masters listen on loopback only. If an executor dies, Spark starts
the executor's tasks again, and the job continues (`spark.task.maxFailures`). Spark writes its files to a temporary
directory that is removed at the end. PySpark itself uses one JVM until the Python process ends. This module ends the
JVM with the session. So the next session may use a different Java and a different directory.

This module starts the driver's JVM as a child process, by `spark-submit`. PySpark then connects to the JVM as if
`spark-submit` had started this program. PySpark could start the JVM itself. But if this start were interrupted, PySpark
would return no process handle. This program could then not end the JVM. The JVM has its own process group. So Ctrl-C in
a terminal reaches only this program, which first drains the instances. The JVM ends when its stdin is closed, so the
JVM never outlives this program.
"""

import contextlib
import importlib
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int
from pyspark.sql import SparkSession

from assignor.errors import InputError
from spark_engine.session.interrupts import undisturbed
from spark_engine.session.shipped_code import send_packages
from spark_engine.session.spark_faults import SparkNotStarted, reason_in_log, reason_of
from spark_engine.session.spark_installation import spark_environment
from spark_engine.session.spark_options import LOOPBACK, SparkOptions, is_on_loopback, standalone_addresses

CONNECT_TIMEOUT_S = 5.0
EXIT_TIMEOUT_S = 20.0
_POLL_INTERVAL_S = 0.05
_CONNECTION_FILE = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
_NAME_OF_A_SHELL = "pyspark-shell"

ConfDefaults = Callable[[SparkConf], Mapping[str, str]]
"""A function that receives the user's settings and returns default values. A default value is used only for a key
without a value. The function raises InputError for unusable settings.
"""


@contextlib.contextmanager
def spark_session(
    master: str | None,
    app_name: str,
    *,
    conf: Mapping[str, str] | None = None,
    options: SparkOptions | None = None,
    defaults: ConfDefaults = lambda _conf: {"spark.ui.enabled": "false"},
) -> Iterator[SparkSession]:
    """Starts a Spark session. Stops the session at the end of the block, even if the block raises an error. `master`,
    `conf`: the caller's settings, which override the user's configuration. `options`: options that are used in place of
    `master` and `conf`. `defaults`: a function that returns default settings, which the user's configuration overrides.
    Raises InputError for unusable settings. Raises SparkNotStarted and JavaNotFound.
    """
    if _PORT in os.environ:
        raise SparkNotStarted(
            "spark-submit has started Spark already: use its session, SparkSession.builder.getOrCreate()"
        )
    # check now: PySpark allows one Spark session per process, but would report a second session only much later
    if SparkContext._active_spark_context is not None:
        raise SparkNotStarted("this process already has a Spark session; stop it first")
    options = options or SparkOptions(master, conf or {})
    chosen = options.known_master()
    _check_answers(chosen)
    with contextlib.ExitStack() as undo:
        directory = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="spark-", ignore_cleanup_errors=True)))
        undo.enter_context(_environment(_environment_for(directory, chosen, options.log_level)))
        undo.callback(_restore_path, list(sys.path))
        _silence_py4j(undo)
        log = undo.enter_context(_log(options.log_file))
        home = Path(os.environ["SPARK_HOME"])
        gateway = undo.enter_context(driver_jvm(home, options.submit_arguments(), log))
        try:
            settings = _settings(gateway, directory, app_name, defaults)
            with _own_interrupts():
                context = SparkContext(conf=settings, gateway=gateway)
            # stop the context separately: if SparkSession() raises an error, there is no session to stop
            undo.callback(context.stop)
            # SparkSession() raises an error if executors do not start, because the master then ends the application
            session = SparkSession(context)
            undo.callback(session.stop)
            if options.log_level is not None:
                context.setLogLevel(options.log_level.upper())  # overrides the user's own log4j2.properties
            send_packages(context)
        except (Py4JError, PySparkException, ConnectionError, ValueError) as fault:
            if isinstance(fault, InputError):
                raise
            raise SparkNotStarted(reason_of(fault)) from fault
        yield session


def _environment_for(directory: Path, master: str, log_level: str | None) -> dict[str, str]:
    environment = spark_environment(directory, log_level or "WARN")
    if is_on_loopback(master) and "SPARK_LOCAL_IP" not in os.environ:
        environment["SPARK_LOCAL_IP"] = LOOPBACK
    return environment


def _settings(gateway: Any, directory: Path, app_name: str, defaults: ConfDefaults) -> SparkConf:
    """Returns the settings that spark-submit has read. Adds defaults for keys without a value."""
    conf = SparkConf(loadDefaults=True, _jvm=gateway.jvm)
    if conf.get("spark.app.name", _NAME_OF_A_SHELL) == _NAME_OF_A_SHELL:
        conf.set("spark.app.name", app_name)
    if python := conf.get("spark.pyspark.python", ""):
        # Spark itself uses the setting spark.pyspark.python only in its own shell
        os.environ["PYSPARK_PYTHON"] = python
    for key, value in {**defaults(conf), **_defaults(directory, str(conf.get("spark.master")))}.items():
        conf.setIfMissing(key, value)
    return conf


def _defaults(directory: Path, master: str) -> dict[str, str]:
    settings = {
        # practically no limits, because executors may die many times during a long-running task
        "spark.task.maxFailures": "1000000",
        "spark.executor.maxNumFailures": "1000000",
        # only affects local-cluster, whose master reads this setting; an external master has its own configuration
        "spark.deploy.maxExecutorRetries": "-1",
        # If the port of Spark's UI is in use, Spark tries the next ports. Spark ends if this number of ports are in
        # use.
        "spark.port.maxRetries": "100",
        "spark.local.dir": str(directory / "local"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    if is_on_loopback(master):
        settings |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return settings


def _check_answers(master: str) -> None:
    """Raises SparkNotStarted at once if no master listens at its address. Spark itself would try to connect for a
    minute.
    """
    problems = []
    for host, port in standalone_addresses(master):
        try:
            socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
        except OSError as error:
            problems.append(f"{host}:{port} ({error.strerror or error})")
        else:
            return
    if problems:
        raise SparkNotStarted(f"no Spark master answers at {', '.join(problems)}: is --master {master} right?")


@contextlib.contextmanager
def _log(file: Path | None) -> Iterator[IO[bytes]]:
    """Opens the log file of the JVM. A temporary log file is kept if Spark does not start, because the log has more
    details than the error.
    """
    if file is None:
        handle, name = tempfile.mkstemp(prefix="spark-driver-", suffix=".log")
        os.close(handle)
    else:
        name = str(file)
    keep = file is not None
    try:
        with open(name, "ab") as log:
            yield log
    except SparkNotStarted as fault:
        keep = True
        raise SparkNotStarted(f"Spark did not start: {fault} (its log: {name})") from fault
    finally:
        if not keep:
            os.unlink(name)


def _silence_py4j(undo: contextlib.ExitStack) -> None:
    """Silences the log of Py4J until the end of the session. Py4J logs a traceback when its JVM ends or a call is
    interrupted. The traceback is not needed, because the caller reports the error in one line. Py4J writes to its own
    logger and to the root logger.
    """
    root, own = logging.getLogger(), logging.getLogger("py4j")
    undo.callback(own.setLevel, own.level)
    own.setLevel(logging.CRITICAL + 1)
    undo.callback(root.removeFilter, _is_not_of_py4j)
    root.addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


@contextlib.contextmanager
def _own_interrupts() -> Iterator[None]:
    """Restores this program's SIGINT handler at the end of the block. In the block, PySpark sets its own SIGINT
    handler. After the block, this handler would cancel the job on Ctrl-C before the instances are drained.
    """
    if threading.current_thread() is not threading.main_thread():  # PySpark sets its handler only in the main thread
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _restore_path(before: list[str]) -> None:
    """Sets sys.path to its value before the session. PySpark adds the code archives of a session to sys.path. PySpark
    deletes the archives at the end of the session, but leaves their entries in sys.path.
    """
    sys.path[:] = before
    importlib.invalidate_caches()


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        for key in [key for key in os.environ if key not in before]:
            if key in values or key.startswith("SPARK_"):  # PySpark adds variables that begin with SPARK_
                del os.environ[key]
        os.environ.update({key: before[key] for key in values if key in before})


@contextlib.contextmanager
def driver_jvm(home: Path, arguments: Sequence[str], log: IO[bytes]) -> Iterator[Any]:
    """Starts a JVM by spark-submit, and yields PySpark's gateway to the JVM. `home`: the directory of the Spark
    installation. `arguments`: the arguments of spark-submit.

    `log`: the file that receives the output of the JVM. Raises SparkNotStarted with the reason found in the JVM's
    output.
    """
    begin = log.seek(0, os.SEEK_END)
    with contextlib.ExitStack() as undo:
        with tempfile.TemporaryDirectory(prefix="spark-connection-") as directory:
            connection = Path(directory) / "connection"
            with undisturbed():  # If Popen were interrupted, this program could not end the started process.
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
                time.sleep(_POLL_INTERVAL_S)
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
    """Ends the JVM by closing its stdin.

    Resets PySpark's gateway, because otherwise PySpark would use the ended JVM for the next session.
    """
    # shutdown() raises an error if the JVM has already ended, which is not a problem here
    with contextlib.suppress(Exception):
        gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    assert process.stdin is not None, "it is a pipe"
    with contextlib.suppress(OSError):
        process.stdin.close()  # the JVM ends when its stdin is closed
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(EXIT_TIMEOUT_S)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kills the JVM and the other processes of its group, such as executors."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _new_output(log: Path, begin: int) -> str:
    with log.open("rb") as file:
        file.seek(begin)
        return file.read().decode("utf-8", "replace")
