"""The code that executors run, as one zip for `addPyFile`: executors need this project's dependencies, not the
project.
"""

from __future__ import annotations

import zipfile
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("assignor", "streams_runtime", "spark_jobs")


def write_code_archive(directory: Path) -> Path:
    """Write `assignor_code.zip` with the Python files of the packages that a member needs; gives its path."""
    archive = directory / "assignor_code.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for package in PACKAGES:
            spec = find_spec(package)
            assert spec is not None, f"{package} is part of this project"
            assert spec.submodule_search_locations is not None, f"{package} is a package"
            root = Path(spec.submodule_search_locations[0])
            for source in sorted(root.rglob("*.py")):
                target.write(source, str(Path(package) / source.relative_to(root)))
    return archive
