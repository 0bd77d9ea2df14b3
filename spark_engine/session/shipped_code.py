"""Sends this project's packages and the user's own modules to executors, as zip files for `addPyFile`.

Executors have this project's dependencies installed, but not the project itself. The user's own modules are the modules
that this process has imported from Python files outside of the installed packages. The user's modules have the same
names on executors. So an executor can unpickle the functions and classes of an application. Modules that the
application imports after this step are not sent. Files other than Python files are not sent either. Such modules and
files have to be installed on the executors. The module `__main__` is not sent as a file, because cloudpickle pickles
its content.
"""

import site
import sys
import sysconfig
import uuid
import zipfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from pyspark import SparkContext, SparkFiles

PACKAGES = (
    "assignor",
    "assignor_cli",
    "coordinator_client",
    "kafka_client",
    "operating_system",
    "rebalance_analysis",
    "spark_engine",
    "spark_jobs",
    "streams_runtime",
)
"""The packages of this project that executors need."""
_NOT_SENT = frozenset(
    {*PACKAGES, "__main__", "pyspark", "py4j"}
)  # leave out pyspark and py4j, which are imported from SPARK_HOME, outside of site-packages
_ARCHIVE = "assignor_code.zip"


def send_packages(context: SparkContext) -> None:
    """Makes this project's packages importable on all executors of the session. An executor uses these packages even if
    a different version of them is already installed on the executor.
    """
    if not any(file.endswith(f"/{_ARCHIVE}") for file in context.listFiles):
        context.addPyFile(str(write_code_archive(_new_directory("packages"))))


def write_code_archive(directory: Path) -> Path:
    """Writes `assignor_code.zip` with the Python files of PACKAGES into `directory`, and returns its path."""
    archive = directory / _ARCHIVE
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for package in PACKAGES:
            spec = find_spec(package)
            assert spec is not None, f"{package} is part of this project"
            assert spec.submodule_search_locations is not None, f"{package} is a package"
            root = Path(spec.submodule_search_locations[0])
            for source in sorted(root.rglob("*.py")):
                target.write(source, str(Path(package) / source.relative_to(root)))
    return archive


def send_modules(context: SparkContext) -> None:
    """Makes the user's modules importable on all executors of the session, including executors that start later."""
    modules = user_modules()
    if modules:
        directory = _new_directory("modules")  # Spark needs a different name for every file
        context.addPyFile(str(write_modules(modules, directory / f"{directory.name}.zip")))


def user_modules() -> dict[str, Path]:
    """Returns the dotted names and files of the imported modules that do not belong to an installed package."""
    installed = _installed()
    found: dict[str, Path] = {}
    for name, module in list(sys.modules.items()):
        origin = getattr(getattr(module, "__spec__", None), "origin", None)
        if name.partition(".")[0] in _NOT_SENT or not isinstance(origin, str):
            continue
        file = Path(origin)
        if file.suffix == ".py" and file.is_file() and not any(file.is_relative_to(each) for each in installed):
            found[name] = file
    return found


def write_modules(modules: Mapping[str, Path], archive: Path) -> Path:
    """Writes a zip file of the modules and returns its path. A package without an `__init__.py` gets an empty
    `__init__.py`.
    """
    names = {f"{name.replace('.', '/')}{_suffix(file)}": file for name, file in modules.items()}
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for inside, file in sorted(names.items()):
            target.write(file, inside)
        packages = {f"{parent}/__init__.py" for inside in names for parent in Path(inside).parents if parent.name}
        for inside in sorted(packages - names.keys()):
            target.writestr(inside, "")
    return archive


def _new_directory(name: str) -> Path:
    """Creates a temporary directory. Spark deletes this directory at the end of the session."""
    directory = Path(SparkFiles.getRootDirectory()) / f"{name}-{uuid.uuid4().hex}"
    directory.mkdir(parents=True)
    return directory


def _suffix(file: Path) -> str:
    return "/__init__.py" if file.name == "__init__.py" else ".py"


def _installed() -> set[Path]:
    paths = sysconfig.get_paths()
    directories = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return {Path(each) for each in (*directories, *site.getsitepackages(), site.getusersitepackages())}
