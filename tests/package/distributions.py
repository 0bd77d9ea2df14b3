"""Builds the wheel and the sdist from what is in the checkout, in a copy: nothing left of an older build gets in."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from tests.checkout import ROOT

_BUILD = """
import sys
from setuptools import build_meta

built = sys.argv[1]  # which the build changes
build_meta.build_sdist(built)
build_meta.build_wheel(built)
"""


def build(directory: Path, source: Path | None = None) -> tuple[Path, Path]:
    """The wheel and the sdist, made in `directory` from `source` (by default a copy of the checkout)."""
    if source is None:
        source = directory / "checkout"
        _copy_checkout(source)
    built = directory / "dist"
    built.mkdir(parents=True)
    ended = subprocess.run([sys.executable, "-c", _BUILD, str(built)], cwd=source, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    return wheel, sdist


def unpacked(sdist: Path, directory: Path) -> Path:
    """The one folder that the sdist has."""
    with tarfile.open(sdist) as archive:
        archive.extractall(directory, filter="data")
    (folder,) = directory.iterdir()
    return folder


def files_of(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def _copy_checkout(target: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file() and not name.startswith("tests/"):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
