"""Which modules go along to executors, and that they can be imported from the zip."""

import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from spark_engine.session.shipped_code import PACKAGES, user_modules, write_code_archive, write_modules
from tests.checkout import ROOT


def test_should_take_what_is_not_installed_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_shop").mkdir()
    (tmp_path / "my_shop" / "orders.py").write_text("import my_serdes\n")
    (tmp_path / "my_serdes.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    __import__("my_shop.orders")
    try:
        found = user_modules()
    finally:
        for name in ("my_shop.orders", "my_shop", "my_serdes"):
            del sys.modules[name]
    assert found["my_shop.orders"] == tmp_path / "my_shop" / "orders.py"
    assert found["my_serdes"] == tmp_path / "my_serdes.py"
    assert found[__name__] == Path(__file__)
    packages = {name.partition(".")[0] for name in found}
    assert packages.isdisjoint({"pytest", "json", "pyspark", *PACKAGES, "__main__"})


def test_should_be_importable_from_the_zip_packages_without_init_included(tmp_path: Path) -> None:
    sources = {
        "my_shop/orders/totals.py": "from my_shop.names import NAME\n",
        "my_shop/names.py": "NAME = 'total'\n",
        "my_serdes/__init__.py": "KIND = 'text'\n",
    }
    for name, text in sources.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    modules = {
        "my_shop.orders.totals": tmp_path / "my_shop/orders/totals.py",
        "my_shop.names": tmp_path / "my_shop/names.py",
        "my_serdes": tmp_path / "my_serdes/__init__.py",
    }
    archive = write_modules(modules, tmp_path / "modules.zip")
    program = "import my_serdes, my_shop.orders.totals as totals; print(totals.NAME, my_serdes.KIND)"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd="/",
        env={"PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == ("total text\n", "")


def test_should_ship_every_package_of_this_project_that_the_shipped_ones_import(tmp_path: Path) -> None:
    project = {file.parent.name for file in ROOT.glob("*/py.typed")}
    imports = re.compile(rb"^[ \t]*(?:from|import)[ \t]+(\w+)", re.MULTILINE)  # parsing all of it takes seconds
    imported: set[str] = set()
    with zipfile.ZipFile(write_code_archive(tmp_path)) as archive:
        for name in archive.namelist():
            if names := {found.decode() for found in imports.findall(archive.read(name))} & project - imported:
                imported |= names & imported_by(archive.read(name))
    assert imported == set(PACKAGES)


def imported_by(source: bytes) -> set[str]:
    """Top-level packages; a line of a text may only look like an import."""
    nodes = list(ast.walk(ast.parse(source)))
    modules = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return {module.partition(".")[0] for module in modules}
