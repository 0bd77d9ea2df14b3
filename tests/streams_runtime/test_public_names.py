"""What can be imported from `streams_runtime` itself: lazily, and the same names for type checkers and for programs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import streams_runtime

_SOURCE = Path(streams_runtime.__file__)


def _told_to_type_checkers() -> dict[str, str]:
    """Name to module, of the imports that only a type checker reads."""
    module = ast.parse(_SOURCE.read_text(encoding="utf-8"))
    return {
        alias.name: node.module or ""
        for block in module.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_should_give_programs_what_type_checkers_are_told() -> None:
    assert _told_to_type_checkers() == streams_runtime._LAZY.home_of


@pytest.mark.parametrize("name", sorted(streams_runtime._LAZY.home_of))
def test_should_give_every_public_name(name: str) -> None:
    assert getattr(streams_runtime, name) is not None
    assert name in dir(streams_runtime)


def test_should_say_what_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'streams_runtime' has no attribute 'KafkaStreams'"):
        _ = streams_runtime.KafkaStreams


def test_should_load_nothing_before_it_is_used() -> None:
    program = "import sys, streams_runtime; print(*(m for m in sys.modules if m.startswith(('streams_', 'assignor'))))"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    names = {f"assignor.names{module}" for module in ("", ".lazy_names", ".moved_modules")}
    assert set(printed.split()) == {"streams_runtime", "assignor", *names}
