"""The sessions on put-data-in.md, get-data-out.md, manage-topics.md and reset-an-application.md go as printed there."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from assignor.types import TopicPartition
from streams_runtime import STRING, NewTopic, RecordProducer, open_log
from tests import program
from tests.docs.pages import blocks
from tests.streams_runtime.logs.reading_and_writing import commit

PAGES = [f"docs/how-to/{name}.md" for name in ("put-data-in", "get-data-out", "manage-topics", "reset-an-application")]


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    return tmp_path


def sessions(page: str) -> list[tuple[str, str]]:
    """Each command of the page's console blocks, and what it prints."""
    text = "".join(block.code for block in blocks(page) if block.language == "console")
    return [(found[1], found[2]) for found in re.finditer(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)]


def typed(line: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the line prints, in a shell; `assignor` runs in this process, to save its starts."""
    if line.startswith("export "):
        monkeypatch.setenv(*line.removeprefix("export ").split("="))
        return ""
    before, is_ours, call = line.rpartition("assignor ")
    if not is_ours:
        return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout
    stdin = subprocess.run(["bash", "-c", before.removesuffix("| ")], capture_output=True, check=True).stdout
    ran = program.assignor(*shlex.split(call), stdin=stdin)
    return ran.stdout + ran.stderr


def words_have_run() -> None:
    """What reset-an-application.md takes for granted."""
    log = open_log("embedded:log")
    log.create_topics([NewTopic("lines", 1), NewTopic("words-counts-changelog", 1)])
    with RecordProducer(log, STRING, STRING) as producer:
        for _ in range(7):
            producer.send("lines", None, "the cat")
    commit(log, "words", {TopicPartition("lines", 0): 7})
    log.close()
    os.makedirs("state/words")
    Path("state/words/.lock").touch()


@pytest.mark.parametrize("page", PAGES)
def test_should_print_what_the_page_says(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "reset" in page:
        words_have_run()
    session = sessions(page)
    printed = [(line, re.sub(r" in \d+\.\d s\n", " in 0.0 s\n", typed(line, monkeypatch))) for line, _ in session]

    assert len(session) > 2
    assert printed == session
