"""docs/tutorial/first-hour.md does what it says: its commands are run in their order, and print what it shows."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import Block, blocks
from tests.docs.python_blocks import file_name
from tests.spark_jobs.quick_java import OPTIONS

PAGE = "docs/tutorial/first-hour.md"
TERMINALS = ("assignor serve", "assignor workers run")
"""Commands that the page gives a terminal of their own, because they run on."""
ASKS_A_COORDINATOR = re.compile(r"^(assignor (?:groups \w+|rebalances \w+|explain|workers run))\b", re.MULTILINE)
PATIENCE_S = 180.0

pytestmark = [pytest.mark.long, pytest.mark.spark]


class Terminals:
    """Shells in one directory. Their coordinator's port tells their `assignor workers run` from that of other tests."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running: list[subprocess.Popen[bytes]] = []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._exports = ""

    def typed(self, code: str) -> str:
        """The commands of a block, for a port that nobody else uses."""
        code = code.replace("assignor serve", f"assignor serve --port {self._port}")
        coordinator = f"--coordinator http://127.0.0.1:{self._port}"
        code = code.replace("[w]orkers run", f"[w]orkers run {coordinator}")
        return ASKS_A_COORDINATOR.sub(rf"\1 {coordinator}", code)

    def run(self, code: str) -> subprocess.CompletedProcess[str]:
        """Runs a block to its end. What it exports is there for the next one."""
        command = f"{self._exports}\n{self.typed(code)}"
        self._exports += "".join(f"{line}\n" for line in code.splitlines() if line.startswith("export "))
        return subprocess.run(
            ["bash", "-e", "-c", command],
            cwd=self._directory,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

    def open(self, code: str, log: str) -> None:
        """Runs a block in a terminal of its own."""
        with (self._directory / log).open("wb") as output:
            self._running.append(
                subprocess.Popen(
                    ["bash", "-e", "-c", f"exec {self.typed(code)}"],
                    cwd=self._directory,
                    env=self._environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            )

    def wait_for_last(self) -> int:
        return self._running[-1].wait(PATIENCE_S)

    def close(self) -> None:
        for process in self._running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in self._running:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _environment(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return {**os.environ, **OPTIONS, "PATH": path, "COLUMNS": "200"}


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Terminals]:
    opened = Terminals(tmp_path)
    yield opened
    opened.close()


def test_should_count_every_word_although_an_executor_is_killed(terminals: Terminals, tmp_path: Path) -> None:
    shown = [block for block in blocks(PAGE) if block.language in ("shell", "python", "text")][1:]  # 0 installs
    for block, following in zip(shown, [*shown[1:], None], strict=True):
        name = file_name(block)
        if block.language == "python":
            assert name is not None
            (tmp_path / name).write_text(block.code, encoding="utf-8")
        elif block.language == "shell" and block.code.startswith(TERMINALS):
            terminals.open(block.code, f"terminal-{block.line}.log")
        elif block.language == "shell":
            done(terminals, block, following.code if following and following.language == "text" else None)
    assert terminals.wait_for_last() == 0


def done(terminals: Terminals, block: Block, expected: str | None) -> None:
    """Runs the block until it prints what the page shows: the page says to ask again while others are at work."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        ran = terminals.run(block.code)
        if ran.returncode == 0 and expected in (None, ran.stdout):
            return
        assert time.monotonic() < deadline_s, f"{block}: {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        assert "kill" not in block.code, f"it is not killed twice: {ran.stderr}"
        time.sleep(0.5)  # nobody tells from outside when a group has done all there is to do
