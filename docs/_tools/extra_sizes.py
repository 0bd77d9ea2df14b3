"""How much each extra installs: `python -m docs._tools.extra_sizes` writes the table of docs/how-to/install.md.

Each extra goes into an environment of its own, from a wheel of this checkout, in the versions of the lock. What counts
is what the files hold; bytecode is not there yet, and what a file system adds is its own.
"""

import sys
import tempfile
import tomllib
from pathlib import Path

from docs._tools.lock_files import ROOT
from tests.package.distributions import build
from tests.package.environments import fresh_environment

BASE = "assignor"
FOR_THIS_PROJECT = {"dev", "docs"}
"""Extras for those who work on it."""


def installable() -> list[str]:
    """As pip takes them: the package alone, and with each extra that is there for users."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [BASE, *(f"{BASE}[{name}]" for name in project["optional-dependencies"] if name not in FOR_THIS_PROJECT)]


def size_mb(wheel: Path, requirement: str) -> int:
    with tempfile.TemporaryDirectory() as name:
        environment = fresh_environment(
            Path(name), Path(sys.executable), f"{requirement} @ {wheel.as_uri()}", links_pyspark=False
        )
        (packages,) = environment.bin.parent.glob("lib/python*/site-packages")
        files = [file for file in packages.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
        own = [file for file in files if not file.relative_to(packages).parts[0].startswith(("pip", "setuptools"))]
        return round(sum(file.stat().st_size for file in own) / 1_000_000)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        wheel, _ = build(Path(name))
        for requirement in installable():
            print(f"| `{requirement}` | {size_mb(wheel, requirement)} MB |", flush=True)


if __name__ == "__main__":
    main()
