"""Every block of code on a page is run by a test, or stands in blocks_run_elsewhere.toml with the reason why not."""

import gzip
import json
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.checkout import RECORDINGS, ROOT
from tests.docs.command_lines import calls_of_assignor, command_lines, misunderstood
from tests.docs.pages import Block, blocks, pages, read
from tests.docs.python_blocks import run
from tests.program import assignor

SHELL = ("shell", "console")
LANGUAGES = {"python", "text", "json", "toml", "properties", "ini", *SHELL}
_ELSEWHERE = tomllib.loads(Path(__file__).with_name("blocks_run_elsewhere.toml").read_text(encoding="utf-8"))
RUN_ELSEWHERE, PYTHON_NOT_RUN = _ELSEWHERE["python"]["run_elsewhere"], _ELSEWHERE["python"]["not_run"]
SHELL_RUN_ELSEWHERE, SHELL_NOT_RUN = _ELSEWHERE["shell"]["run_elsewhere"], _ELSEWHERE["shell"]["not_run"]
RECORDED = "tests/vectors/"
"""A command on files below this one needs nothing else, and is run here whatever the page."""
SLOW = ("replay", "sweep")
TAKES_SECONDS = (
    "docs/how-to/run-on-one-machine.md",
    "docs/how-to/read-a-store-from-outside.md",
)
"""Their programs start processes."""


def recorded_document() -> dict[str, Any]:
    with gzip.open(RECORDINGS / "wcflow.jsonl.gz", "rt", encoding="utf-8") as lines:
        document: dict[str, Any] = json.loads(next(iter(lines)))
    return document


def with_language(*languages: str) -> list[Block]:
    return [block for page in pages() for block in blocks(page) if block.language in languages]


def with_what_follows(language: str, following: str) -> list[tuple[Block, Block]]:
    """Blocks of one language that the next block of their page follows, in another one."""
    return [
        (block, after)
        for page in pages()
        for block, after in pairwise(blocks(page))
        if (block.language, after.language) == (language, following)
    ]


PYTHON_PAGES = sorted({block.page for block in with_language("python")} - RUN_ELSEWHERE.keys() - PYTHON_NOT_RUN.keys())
LINES = [(block, line) for block in with_language(*SHELL) for line in command_lines(block)]
CALLS = [(str(block), call) for block, line in LINES for call in calls_of_assignor(line)]
ON_RECORDINGS = [
    pytest.param(call, printed.get(where), id=where)
    for printed in [{str(block): following.code for block, following in with_what_follows("shell", "text")}]
    for where, call in CALLS
    if any(word.startswith(RECORDED) for word in call) and call[0] not in SLOW
]
"""Each call with what the page says that it prints, if it does."""


@pytest.mark.parametrize("page", pages())
def test_should_say_in_which_language_a_block_is(page: str) -> None:
    assert [
        str(block)
        for block in blocks(page)
        if block.language not in LANGUAGES and not block.language.startswith("{")  # a directive of the site
    ] == []


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.long] if page in TAKES_SECONDS else []) for page in PYTHON_PAGES]
)
def test_should_run_the_python_of_a_page(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = [block for block in blocks(page) if block.language == "python"]

    assert run(found, tmp_path, {"document": recorded_document()}) >= len(found)


@pytest.mark.parametrize(("where", "call"), CALLS, ids=[where for where, _ in CALLS])
def test_should_write_commands_that_assignor_understands(where: str, call: list[str]) -> None:
    assert misunderstood(call) is None, where


@pytest.mark.parametrize(("call", "printed"), ON_RECORDINGS)
def test_should_run_commands_on_recordings(
    call: list[str], printed: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("COLUMNS", raising=False)

    result = assignor(*call)

    assert (result.returncode, result.stdout == "") == (0, False), result.stderr
    if printed is not None:
        assert list(folded(result.stdout, printed)) == printed.splitlines()


def folded(text: str, pattern: str) -> Iterator[str]:
    """Lines of `text`. Where `pattern` has a line of three dots, they stand for all lines up to its next one."""
    rest = [line.rstrip() for line in text.splitlines()]
    wanted = [*pattern.splitlines(), None]
    for line, following in pairwise(wanted):
        if line is not None and line.strip() == "...":
            end = rest.index(following) if following in rest else len(rest)
            rest[:end] = [line]
        if rest:
            yield rest.pop(0)
    yield from rest


def test_should_fold_what_a_page_leaves_out() -> None:
    assert list(folded("a \nb\nc\nd\n", "a\n...\nd\n")) == ["a", "...", "d"]
    assert list(folded("a\nb\nc\n", "a\n...\n")) == ["a", "..."]
    assert list(folded("a\nx\n", "a\n")) == ["a", "x"]
    assert list(folded("a\n", "a\nb\n")) == ["a"]


def test_should_run_what_is_on_recordings() -> None:
    assert len(ON_RECORDINGS) > 5
    assert len([each for each in ON_RECORDINGS if each.values[1] is not None]) > 3


def test_should_have_a_reason_for_each_page_whose_commands_are_not_run() -> None:
    shell = {block.page for block in with_language(*SHELL)}
    all_run_here = {page for page in shell if all(RECORDED in line for block, line in LINES if block.page == page)}

    assert sorted(shell - all_run_here - SHELL_RUN_ELSEWHERE.keys() - SHELL_NOT_RUN.keys()) == []
    assert sorted((SHELL_RUN_ELSEWHERE.keys() | SHELL_NOT_RUN.keys()) - shell) == []


@pytest.mark.parametrize(("page", "test"), sorted({**RUN_ELSEWHERE, **SHELL_RUN_ELSEWHERE}.items()))
def test_should_name_a_test_that_reads_the_page(page: str, test: str) -> None:
    assert page.rpartition("/")[2] in read(test)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (["explain", "a.jsonl", "--task", "0_1"], None),
        (["groups", "describe", "orders"], None),
        (["explain", "--tusk", "0_1"], "No such option"),
        (["groups", "describ", "orders"], "there is no command 'groups describ'"),
    ],
)
def test_should_tell_a_command_that_assignor_does_not_understand(call: list[str], reason: str | None) -> None:
    found = misunderstood(call)

    assert found is None if reason is None else reason in (found or "")
