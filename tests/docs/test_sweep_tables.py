"""Tables of sweeps on pages are what their commands print: those on recordings that take seconds, not minutes."""

import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.docs.command_lines import command_lines
from tests.docs.pages import blocks
from tests.program import assignor_process

PAGES = ("docs/batch/assignors.md", "docs/batch/minimal-movement.md", "docs/how-to/write-your-own-assignor.md")


def sweeps(page: str) -> list[tuple[list[str], str]]:
    """The arguments of each sweep that a text block follows, and that block."""
    found = []
    for block, following in pairwise(blocks(page)):
        if (block.language, following.language) == ("shell", "text"):
            words = [shlex.split(line) for line in command_lines(block)]
            found += [(line[1:], following.code) for line in words if line[:2] == ["assignor", "sweep"]]
    return found


SWEEPS = [pytest.param(page, *each, id=f"{page} {place}") for page in PAGES for place, each in enumerate(sweeps(page))]


@pytest.mark.long
@pytest.mark.parametrize(("page", "arguments", "printed"), SWEEPS)
def test_should_print_the_table_of_the_page(page: str, arguments: list[str], printed: str, tmp_path: Path) -> None:
    """A directory with the recordings and the modules that the page's reader has."""
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    for block in blocks(page):
        if block.language == "python":
            (tmp_path / block.code.splitlines()[0].removeprefix("# ")).write_text(block.code, encoding="utf-8")
    result = assignor_process(*arguments, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert [line.rstrip() for line in result.stdout.splitlines()] == printed.splitlines()


def test_should_find_a_sweep_on_each_page() -> None:
    assert [page for page in PAGES if not sweeps(page)] == []
