"""The options with which Spark is started. The options have the names and the order of precedence of spark-submit.

From the highest to the lowest precedence, settings come from `--master`, `--conf`, PYSPARK_SUBMIT_ARGS,
`--properties-file` and the defaults of this project. If `--properties-file` is not given, the file spark-defaults.conf
in SPARK_CONF_DIR or SPARK_HOME/conf is used instead. spark-submit itself reads all of these settings except the
defaults of this project. A default of this project applies only to a key without a value. This module itself reads one
setting from the properties files: the master, because it has to be known before the JVM starts.
"""

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from assignor.errors import InputError

LOOPBACK = "127.0.0.1"
LOCAL_MASTER = "local[*]"
LOG_LEVELS = ("trace", "debug", "info", "warn", "error", "fatal", "off")
_SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_MASTER_LINE = re.compile(r"^[ \t]*spark\.master[ \t]*[=:\s][ \t]*(\S+)", re.MULTILINE)
_LOOPBACK_MASTER = re.compile(r"local(\[|-cluster\[|$)|spark://(127\.0\.0\.1|localhost)(:|$)")
_STANDALONE = "spark://"


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """The options for the start of Spark. `master`, `properties_file`: the values of `--master` and
    `--properties-file`; None if Spark's own configuration decides. `confs`: the settings that `--conf` sets.

    `log_level`: the log level of the driver and of executors, one of LOG_LEVELS. `log_file`: the file to which the
    output of the driver's JVM is appended; None for a temporary file. The constructor raises InputError for an invalid
    value.
    """

    master: str | None = None
    confs: Mapping[str, str] = field(default_factory=dict)
    properties_file: Path | None = None
    log_level: str | None = None
    log_file: Path | None = None

    def __post_init__(self) -> None:
        if self.properties_file is not None and not self.properties_file.is_file():
            raise InputError(f"there is no file {self.properties_file}", "--properties-file")
        if self.log_level is not None and self.log_level.lower() not in LOG_LEVELS:
            raise InputError(f"must be one of {', '.join(LOG_LEVELS)}, not {self.log_level!r}", "--log-level")
        if self.confs.get("spark.submit.deployMode", "client") != "client":
            raise InputError("the driver runs in this process: the deploy mode is client", "spark.submit.deployMode")

    def submit_arguments(self) -> list[str]:
        """Returns the arguments of spark-submit. The argument with the lowest precedence is first, because in
        spark-submit a later argument overrides an earlier argument. Raises InputError if a quote in PYSPARK_SUBMIT_ARGS
        is not closed.
        """
        try:
            of_environment = shlex.split(os.environ.get(_SUBMIT_ARGUMENTS, ""))
        except ValueError as error:
            raise InputError(str(error), _SUBMIT_ARGUMENTS) from None
        if of_environment[-1:] == ["pyspark-shell"]:
            of_environment.pop()
        arguments = [
            *of_environment,
            "--conf",
            "spark.ui.showConsoleProgress=false",
        ]  # switch off Spark's progress bar, because this program prints its own progress
        if self.properties_file is not None:
            arguments += ["--properties-file", str(self.properties_file)]
        if self.log_level is not None:
            arguments += ["--conf", f"spark.log.level={self.log_level.upper()}"]
        for key, value in self.confs.items():
            arguments += ["--conf", f"{key}={value}"]
        if self.master is not None:
            arguments += ["--master", self.master]
        return arguments

    def known_master(self) -> str:
        """Returns the master that spark-submit will choose."""
        if named := self.master or self.confs.get("spark.master"):
            return named
        file = self.properties_file or _defaults_file()
        found = _MASTER_LINE.findall(file.read_text(errors="replace")) if file is not None and file.is_file() else []
        return found[-1] if found else LOCAL_MASTER


def parsed_confs(texts: Iterable[str]) -> dict[str, str]:
    """Parses the `key=value` texts of `--conf`; the last value of a key is used. Raises InputError for a text without
    `=` and for a key that does not begin with `spark.`.
    """
    confs: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise InputError(f"must be key=value, not {text!r}", "--conf")
        if not key.strip().startswith("spark."):
            raise InputError(f"keys of Spark begin with spark., {key.strip()!r} does not", "--conf")
        confs[key.strip()] = value.strip()
    return confs


def is_on_loopback(master: str) -> bool:
    """True if the driver and all executors of this master run on this machine and can therefore communicate over
    loopback.
    """
    return _LOOPBACK_MASTER.match(master) is not None


def standalone_addresses(master: str) -> list[tuple[str, int]]:
    """Returns the host and port of each standalone master (`spark://`); empty for any other kind of master. Raises
    InputError for an invalid `spark://` address.
    """
    if not master.startswith(_STANDALONE):
        return []
    addresses = []
    for each in master.removeprefix(_STANDALONE).split(","):
        host, separator, port = each.rpartition(":")
        if not separator or not host or not port.isascii() or not port.isdigit():
            raise InputError(f"must be spark://host:port, not {master!r}", "--master")
        addresses.append((host.strip("[]"), int(port)))
    return addresses


def _defaults_file() -> Path | None:
    if directory := os.environ.get("SPARK_CONF_DIR"):
        return Path(directory) / "spark-defaults.conf"
    if home := os.environ.get("SPARK_HOME"):
        return Path(home) / "conf" / "spark-defaults.conf"
    return None
