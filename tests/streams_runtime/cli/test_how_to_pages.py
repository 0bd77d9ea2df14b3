"""The sessions on put-data-in.md, get-data-out.md, manage-topics.md, reset-an-application.md and
handle-records-that-fail.md go as printed there.
"""

import os
import re
import runpy
import shlex
import subprocess
import time
from pathlib import Path

import pytest

from assignor.types import TopicPartition
from streams_runtime import BYTES, JSON, STRING, NewTopic, RecordProducer, TopologyTestDriver, dead_letter, open_log
from tests import program
from tests.docs.pages import blocks
from tests.docs.test_code_blocks import folded
from tests.streams_runtime.logs.reading_and_writing import commit

DEAD_LETTERS = "docs/how-to/handle-records-that-fail.md"
PAGES = [
    *(f"docs/how-to/{name}.md" for name in ("put-data-in", "get-data-out", "manage-topics", "reset-an-application")),
    DEAD_LETTERS,
]


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


def payments_have_failed() -> None:
    """What handle-records-that-fail.md takes for granted: the dead letters that its application sent."""
    code = next(block.code for block in blocks(DEAD_LETTERS) if block.code.startswith("# application.py\n"))
    Path("application.py").write_text(code)
    app = runpy.run_path("application.py")["app"]
    with TopologyTestDriver(app.topology, app.configs, processing_exception_handler=dead_letter) as driver:
        payments = driver.create_input_topic("payments", STRING, JSON)
        for payment in ({"amount": 3}, {"sum": 3}, {"amount": 5}, {"amount": 7}, {"total": 2}):
            payments.pipe_input("ann", payment, int(time.time() * 1_000))
        failed = driver.create_output_topic("failed-payments", BYTES, BYTES).read_all()
    log = open_log("embedded:log")
    log.create_topics([NewTopic("payments", 1), NewTopic("failed-payments", 1)])
    with RecordProducer(log, BYTES, BYTES) as producer:
        for key, value, timestamp_ms, headers in failed:
            producer.send("failed-payments", key, value, timestamp_ms=timestamp_ms, headers=headers)
    log.close()


def with_fixed_times(printed: str) -> str:
    printed = re.sub(r" in \d+\.\d s\n", " in 0.0 s\n", printed)
    printed = re.sub(r"^ ?\d+s ", " 2s ", printed, flags=re.MULTILINE)
    return re.sub(r"\d{13} \(.*, \d+s ago\)", "1767225600000 (2026-01-01 00:00:00.000Z, 2s ago)", printed)


@pytest.mark.parametrize("page", PAGES)
def test_should_print_what_the_page_says(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "reset" in page:
        words_have_run()
    if page == DEAD_LETTERS:
        payments_have_failed()
    session = [(line, shown.splitlines()) for line, shown in sessions(page)]
    printed = [
        (line, list(folded(with_fixed_times(typed(line, monkeypatch)), "\n".join(shown)))) for line, shown in session
    ]

    assert len(session) > 2
    assert printed == session
