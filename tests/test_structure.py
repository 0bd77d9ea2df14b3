"""Every folder has its floor, a class name one meaning, and every error of the product one root."""

import ast
import builtins
import re
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.checkout import ROOT

PACKAGES = sorted(file.parent.name for file in ROOT.glob("*/py.typed"))
ROOT_OF_ERRORS = "AssignorFault"


def files(pattern: str) -> list[Path]:
    return [file for package in PACKAGES for file in sorted(ROOT.glob(f"{package}/**/{pattern}"))]


@cache
def class_definitions() -> list[tuple[str, ast.ClassDef]]:
    return [
        (str(file.relative_to(ROOT)), node)
        for file in files("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]


def test_should_have_a_floor_in_a_contract_for_every_folder_of_a_package_with_floors() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    floors = {
        package: {name.strip() for layer in contract["layers"] for name in layer.split("|")}
        for contract in settings["tool"]["importlinter"]["contracts"]
        for package in contract.get("containers", [])
    }
    folders = {package: {file.parent.name for file in ROOT.glob(f"{package}/*/__init__.py")} for package in floors}

    assert len(floors) > 1
    assert {package: names - floors[package] for package, names in folders.items() if names - floors[package]} == {}


def test_should_use_a_class_name_once() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for file, node in class_definitions():
        places[node.name.lstrip("_")].append(file)

    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_should_name_only_methods_that_exist_in_the_guides() -> None:
    members = {
        f"{node.name}.{name}"
        for _, node in class_definitions()
        for each in node.body
        for name in (getattr(each, "name", None), getattr(getattr(each, "target", None), "id", None))
    }
    named = {
        f"{found[1]}.{found[2]}"
        for guide in ("CONTRIBUTING.md", "ARCHITECTURE.md")
        for found in re.finditer(r"`([A-Z]\w*[a-z]\w*)\.([a-z_]+)[`(]", (ROOT / guide).read_text(encoding="utf-8"))
    }

    assert len(named) > 2
    assert named - members == set()


def test_should_raise_errors_of_one_root() -> None:
    bases = {
        node.name: [ast.unparse(base).rpartition(".")[2] for base in node.bases] for _, node in class_definitions()
    }
    public_errors = [name for name in bases if not name.startswith("_") and is_error(name, bases)]

    assert len(public_errors) > 50
    assert [name for name in public_errors if ROOT_OF_ERRORS not in ancestors(name, bases)] == []


def ancestors(name: str, bases: Mapping[str, list[str]]) -> set[str]:
    """With the class itself, by names."""
    return {name}.union(*(ancestors(base, bases) for base in bases.get(name, [])))


def is_error(name: str, bases: Mapping[str, list[str]]) -> bool:
    kinds = (getattr(builtins, ancestor, None) for ancestor in ancestors(name, bases))
    return any(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds)
