"""Runs the Python of a page: files that are written down, tests among them, and lines that are typed in."""

import importlib
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.docs.pages import Block

_FILE_NAME = re.compile(r"\A# (?P<name>\w+\.py)\n")


def file_name(block: Block) -> str | None:
    """The name in the first line of a block that is a file."""
    found = _FILE_NAME.match(block.code)
    return found["name"] if found else None


def run(blocks: Iterable[Block], directory: Path, given: Mapping[str, Any]) -> int:
    """Runs the blocks in their order, in `directory`. `given`: names that the page takes for granted.

    A file whose name begins with test_ has its tests called, each with a fresh directory if it asks for one; a block
    without a name is run in one namespace with those before it. Returns how many tests and blocks were run.
    """
    namespace: dict[str, Any] = dict(given)
    ran = 0
    with _importable(directory):
        for block in blocks:
            name = file_name(block)
            if name is None:
                exec(compile(block.code, str(block), "exec"), namespace)
                ran += 1
                continue
            (directory / name).write_text(block.code, encoding="utf-8")
            importlib.invalidate_caches()
            if name.startswith("test_"):
                ran += _call_tests(importlib.import_module(name.removesuffix(".py")), directory)
            else:
                importlib.import_module(name.removesuffix(".py"))
                ran += 1
    return ran


def _call_tests(module: Any, directory: Path) -> int:
    tests = [each for name, each in vars(module).items() if name.startswith("test_") and callable(each)]
    for number, test in enumerate(tests):
        scratch = directory / f"{module.__name__}-{number}"
        scratch.mkdir()
        test(**({"tmp_path": scratch} if "tmp_path" in inspect.signature(test).parameters else {}))
    assert tests, f"{module.__name__} has no test"
    return len(tests)


@contextmanager
def _importable(directory: Path) -> Iterator[None]:
    """Files of the directory can be imported, and are forgotten afterwards: other pages use the same names."""
    sys.path.insert(0, str(directory))
    try:
        yield
    finally:
        sys.path.remove(str(directory))
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "")).startswith(f"{directory}/"):
                del sys.modules[name]
