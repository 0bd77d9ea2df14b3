"""The code in docs/runtime/index.md does what the page says: its tests pass, and its program runs on a coordinator."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from assignor.types import TaskId, TopicPartition
from streams_runtime.logs.base import Log
from streams_runtime.logs.opening import open_log
from streams_runtime.serdes import LONG, STRING
from tests.checkout import ROOT
from tests.warm_coordinator import WarmCoordinator

PAGE = ROOT / "docs" / "runtime" / "index.md"
TIMEOUT_S = 60.0
_BLOCK = re.compile(r"^```python\n# (?P<name>\w+\.py)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """The page's code as files in a directory."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = {found["name"]: found["code"] for found in _BLOCK.finditer(text)}
    assert len(blocks) == text.count("```python"), "every block of code begins with the name of its file"
    for name, code in blocks.items():
        (tmp_path / name).write_text(code, encoding="utf-8")
    return tmp_path


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def test_should_pass_the_tests_on_the_page(written: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(written), str(written)],
        cwd=written,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert (ran.returncode, re.findall(r"^(\d+ \w+) in", ran.stdout, re.MULTILINE)) == (0, ["4 passed"]), ran.stdout


def test_should_run_the_program_on_the_page_until_it_is_interrupted(written: Path) -> None:
    log = open_log(f"embedded:{written / 'log'}")
    settings = {"group.initial.rebalance.delay.ms": 100, "cluster.bootstrap.servers": f"embedded:{written / 'log'}"}
    with WarmCoordinator(written / "coordinator", settings) as coordinator:
        program = subprocess.Popen(
            [sys.executable, "run.py", coordinator.url, str(written)], cwd=written, env=environment()
        )
        try:
            wait_for(program, lambda: "lines" in log.topics())
            producer = log.producer()
            for partition in range(2):
                producer.send(TopicPartition("lines", partition), None, b"the cat and the dog", 1_000)
            producer.close()
            wait_for(program, lambda: counted(log) == {"the": 4, "cat": 2, "and": 2, "dog": 2})
            program.send_signal(signal.SIGTERM)
            assert program.wait(TIMEOUT_S) == 0
        finally:
            program.kill()
            program.wait()
    log.close()
    checkpoints = (written / "state" / "word-count").glob("*/.checkpoint")
    assert sorted(found.parent.name for found in checkpoints) == [str(TaskId(1, 0)), str(TaskId(1, 1))]


def counted(log: Log) -> dict[str, int]:
    """The highest count of each word, of committed records."""
    if "counted" not in log.topics():
        return {}
    consumer = log.consumer()
    partitions = [TopicPartition("counted", number) for number in range(2)]
    consumer.assign(partitions)
    for partition in partitions:
        consumer.seek(partition, 0)
    highest: dict[str, int] = {}
    while batches := consumer.poll(0, 1_000):
        for batch in batches:
            for key, value in zip(batch.keys, batch.values, strict=True):
                word, count = STRING.deserialize(key or b""), LONG.deserialize(value or b"")
                highest[word] = max(count, highest.get(word, 0))
    consumer.close()
    return highest


def wait_for(program: subprocess.Popen[bytes], condition: Callable[[], bool]) -> None:
    """For what nobody can signal: the content of a log that another process writes."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert program.poll() is None, f"the program ended: {program.returncode}"
        assert time.monotonic() < deadline_s, "it takes too long"
        threading.Event().wait(0.02)
