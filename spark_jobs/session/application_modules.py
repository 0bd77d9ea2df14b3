"""The user's own modules, as one zip for `addPyFile`: executors have the packages that are installed, not these.

Rule: what this process has imported from Python files outside of the installed packages goes along, under its own name,
so that functions and classes of an application unpickle there as what they are here. What the application imports only
later, and files that are not Python, have to be where executors find them. `__main__` needs no file: cloudpickle takes
it along.
"""

from __future__ import annotations

import site
import sys
import sysconfig
import uuid
import zipfile
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkContext, SparkFiles

from spark_jobs.session.code_archive import PACKAGES


def send_modules(context: SparkContext) -> None:
    """Make the user's modules importable on all executors of the session, those to come included."""
    modules = user_modules()
    if modules:
        # Spark deletes its directory with the session, and asks that no two files have the same name
        directory = Path(SparkFiles.getRootDirectory()) / f"modules-{uuid.uuid4().hex}"
        directory.mkdir(parents=True)
        context.addPyFile(str(write_modules(modules, directory / f"{directory.name}.zip")))


def user_modules() -> dict[str, Path]:
    """Dotted names of imported modules that are not installed, with their files."""
    installed = _installed()
    found: dict[str, Path] = {}
    for name, module in list(sys.modules.items()):
        origin = getattr(getattr(module, "__spec__", None), "origin", None)
        if name.partition(".")[0] in (*PACKAGES, "__main__") or not isinstance(origin, str):
            continue
        file = Path(origin)
        if file.suffix == ".py" and file.is_file() and not any(file.is_relative_to(each) for each in installed):
            found[name] = file
    return found


def write_modules(modules: Mapping[str, Path], archive: Path) -> Path:
    """Write the zip, with an empty `__init__.py` for a package that has none; gives its path."""
    names = {f"{name.replace('.', '/')}{_suffix(file)}": file for name, file in modules.items()}
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for inside, file in sorted(names.items()):
            target.write(file, inside)
        packages = {f"{parent}/__init__.py" for inside in names for parent in Path(inside).parents if parent.name}
        for inside in sorted(packages - names.keys()):
            target.writestr(inside, "")
    return archive


def _suffix(file: Path) -> str:
    return "/__init__.py" if file.name == "__init__.py" else ".py"


def _installed() -> set[Path]:
    paths = sysconfig.get_paths()
    directories = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return {Path(each) for each in (*directories, *site.getsitepackages(), site.getusersitepackages())}
