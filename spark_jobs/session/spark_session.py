"""The one place that builds a SparkSession, and stops it together with all that it started.

Rules: executors run this very Python. Local masters listen on loopback only. A dead executor costs tasks, never the job
(`spark.task.maxFailures`), and no task runs twice at once (`spark.speculation`). What Spark writes goes to a temporary
directory that is removed at the end, not into the installed package. PySpark keeps its JVM in class attributes for the
life of the process; here the JVM ends with the session, so that the next session may use another Java and directory.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from assignor.errors import AssignorFault
from spark_jobs.session.java_home import find_java_home
from spark_jobs.session.shipped_code import write_code_archive

LOOPBACK = "127.0.0.1"
JVM_EXIT_TIMEOUT_S = 20.0
_LOG4J = """rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
"""


class SparkNotStarted(AssignorFault):
    """The JVM or the Spark context did not start. The message ends with the JVM's output."""


@contextlib.contextmanager
def spark_session(
    master: str, app_name: str, *, conf: Mapping[str, str] | None = None, log_level: str = "ERROR"
) -> Iterator[SparkSession]:
    """A session on `master` (local[*], local-cluster[..], spark://..), which is stopped on exit, whatever happens.

    `conf` overrides the settings of this module. Raises SparkNotStarted, JavaNotFound.
    """
    with contextlib.ExitStack() as undo:
        directory = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="spark-", ignore_cleanup_errors=True)))
        undo.enter_context(_environment(_spark_environment(directory, master, log_level)))
        undo.enter_context(_own_path())
        settings = SparkConf(loadDefaults=False)
        for key, value in {**_settings(directory, master, app_name), **(conf or {})}.items():
            settings.set(key, value)
        yield _start(settings, directory, undo)


def spark_home(directory: Path) -> Path:
    """A SPARK_HOME of links to the installed PySpark, so that what Spark writes under SPARK_HOME lands in
    `directory`.
    """
    home = directory / "spark-home"
    home.mkdir()
    installed = Path(str(pyspark.__file__)).parent
    for name in ("bin", "sbin", "jars", "python"):
        (home / name).symlink_to(installed / name)
    return home


def spark_environment(directory: Path, log_level: str = "ERROR") -> dict[str, str]:
    """The environment of every Spark process: its home, its Java, this Python, its log settings."""
    configuration = directory / "conf"
    configuration.mkdir()
    (configuration / "log4j2.properties").write_text(_LOG4J.format(level=log_level.lower()))
    environment = {
        "SPARK_HOME": str(spark_home(directory)),
        "SPARK_CONF_DIR": str(configuration),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    java_home = find_java_home(directory)
    if java_home is not None:
        environment["JAVA_HOME"] = str(java_home)
    return environment


def _spark_environment(directory: Path, master: str, log_level: str) -> dict[str, str]:
    environment = spark_environment(directory, log_level)
    if _is_local(master):
        environment["SPARK_LOCAL_IP"] = LOOPBACK
    return environment


def _settings(directory: Path, master: str, app_name: str) -> dict[str, str]:
    settings = {
        "spark.master": master,
        "spark.app.name": app_name,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.task.maxFailures": "1000000",  # executors may die any number of times during a long-running task
        "spark.speculation": "false",
        "spark.executor.maxNumFailures": "1000000",
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.excludeOnFailure.enabled": "false",
        "spark.local.dir": str(directory / "local"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    if _is_local(master):
        settings |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    if master.startswith("local-cluster"):
        settings["spark.executor.memory"] = "1g"
    return settings


def _is_local(master: str) -> bool:
    return master.startswith(("local", f"spark://{LOOPBACK}", "spark://localhost"))


def _start(settings: SparkConf, directory: Path, undo: contextlib.ExitStack) -> SparkSession:
    if SparkContext._active_spark_context is not None:  # PySpark allows one per process, and says so only much later
        raise SparkNotStarted("this process already has a Spark session; stop it first")
    said = undo.enter_context((directory / "jvm.log").open("w+"))
    try:
        gateway = launch_gateway(settings, {"stderr": said, "stdout": said})  # type: ignore[no-untyped-call]
        undo.callback(_end_jvm, gateway)
        with _own_interrupts():
            context = SparkContext(conf=settings, gateway=gateway)
    except Exception as fault:
        said.seek(0)
        raise SparkNotStarted(f"Spark did not start: {fault}\n{said.read()[-4000:]}") from fault
    session = SparkSession(context)
    undo.callback(session.stop)
    context.addPyFile(str(write_code_archive(directory)))
    return session


@contextlib.contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep this program's handler of SIGINT: PySpark's own one cancels every job before it can be drained."""
    if threading.current_thread() is not threading.main_thread():  # there PySpark sets none either
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end_jvm(gateway: object) -> None:
    process: subprocess.Popen[bytes] = gateway.proc  # type: ignore[attr-defined]
    with contextlib.suppress(Exception):  # a gateway whose JVM has ended complains, and that is the aim
        gateway.shutdown()  # type: ignore[attr-defined]
    SparkContext._gateway = None
    SparkContext._jvm = None
    if process.stdin is not None:
        process.stdin.close()  # the JVM ends when this pipe does
    try:
        process.wait(JVM_EXIT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _own_path() -> Iterator[None]:
    """PySpark adds a session's archives to this process's sys.path and leaves them there after deleting them."""
    before = list(sys.path)
    try:
        yield
    finally:
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
            if key in values or key.startswith("SPARK_"):  # PySpark adds some of its own
                del os.environ[key]
        os.environ.update({key: before[key] for key in values if key in before})
