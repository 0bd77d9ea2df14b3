"""The code in docs/runtime/index.md does what the page says: its tests pass, and its program runs on a coordinator."""

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from assignor.types import TaskId, TopicPartition
from streams_runtime.logs.opening import open_log
from streams_runtime.state_stores.rocksdb_offsets import stored_offset
from tests.checkout import ROOT
from tests.docs.pages import blocks
from tests.docs.python_blocks import file_name, run
from tests.known import known
from tests.streams_runtime.word_counting import read_highest
from tests.waiting import wait_until
from tests.warm_coordinator import WarmCoordinator

FILES = {known(file_name(each)): each for each in blocks("docs/runtime/index.md") if each.language == "python"}
TIMEOUT_S = 60.0


def test_should_pass_the_tests_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = [block for name, block in FILES.items() if name != "run.py"]
    assert run(files, tmp_path, {}) == 3 + 4, "three modules, four tests"


def test_should_run_the_program_on_the_page_until_it_is_interrupted(tmp_path: Path) -> None:
    for name, block in FILES.items():
        (tmp_path / name).write_text(block.code, encoding="utf-8")
    servers = f"embedded:{tmp_path / 'log'}"
    settings = {"group.initial.rebalance.delay.ms": 100, "cluster.bootstrap.servers": servers}
    with closing(open_log(servers)) as log, WarmCoordinator(tmp_path / "coordinator", settings) as coordinator:
        program = subprocess.Popen(
            [sys.executable, "run.py", coordinator.url, str(tmp_path)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        try:
            wait_until(lambda: "lines" in log.topics(), "the topics", alive=lambda: program.poll() is None)
            with closing(log.producer()) as producer:
                for partition in range(2):
                    producer.send(TopicPartition("lines", partition), None, b"the cat and the dog", 1_000)
            expected = {"the": 4, "cat": 2, "and": 2, "dog": 2}
            wait_until(
                lambda: "counted" in log.topics() and read_highest(log, "counted") == expected,
                "the counts",
                alive=lambda: program.poll() is None,
            )
            program.send_signal(signal.SIGTERM)
            assert program.wait(TIMEOUT_S) == 0
        finally:
            program.kill()
            program.wait()
    for number in range(2):
        store = tmp_path / "state" / "word-count" / str(TaskId(1, number)) / "rocksdb" / "counts"
        stored = stored_offset(store)
        assert stored is not None
        assert stored[0] == TopicPartition("word-count-counts-changelog", number)
