"""Chooses the Spark to start, its Java, its Python and its directory of settings.

The user's environment goes first: SPARK_HOME, SPARK_CONF_DIR, JAVA_HOME, PYSPARK_PYTHON. Without SPARK_HOME it is the
installed PySpark, in a directory of links to it, so that Spark writes below its home into a temporary directory and not
into the installed package. Executors run the Python of this process unless the user names another.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark

from assignor.errors import InputError
from spark_engine.session.java_home import find_java_home

_HOME, _SETTINGS, _PYTHON = "SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_PYTHON"
_OPTIONS = "SPARK_SUBMIT_OPTS"
# The second logger is that of the class that runs PySpark's driver. Spark takes the driver for a shell, and shows of
# a shell only warnings unless this logger has another level.
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


def spark_environment(directory: Path, log_level: str = "ERROR") -> dict[str, str]:
    """The environment of every Spark process. `directory`: for files to create. Raises InputError, JavaNotFound."""
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
    """PySpark and the JVM must be of one version: they exchange objects of Spark's own classes."""
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
    """The directory of settings that the user named, if any."""
    return Path(os.environ.get(_SETTINGS) or Path(environment[_HOME]) / "conf")


def _own_settings(directory: Path, log_level: str) -> Path:
    settings = directory / "conf"
    settings.mkdir()
    (settings / _LOG4J_FILE).write_text(_LOG4J.format(level=log_level.lower()))
    return settings
