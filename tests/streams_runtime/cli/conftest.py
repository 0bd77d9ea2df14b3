"""A log with two topics, and the program `assignor` on it."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streams_runtime.cli.data_options import ADDRESS_VARIABLE
from streams_runtime.logs.base import Log, NewTopic
from streams_runtime.logs.opening import open_log
from tests import program
from tests.program import PROGRAM, environment

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Commands find it in the environment."""
    address = f"embedded:{tmp_path / 'log'}"
    monkeypatch.setenv(ADDRESS_VARIABLE, address)
    return address


@pytest.fixture
def log(address: str) -> Iterator[Log]:
    """`lines` has four partitions, `counts` has one and is compacted."""
    opened = open_log(address)
    opened.create_topics([NewTopic("lines", 4), NewTopic("counts", 1, {"cleanup.policy": "compact"})])
    yield opened
    opened.close()


def started(*arguments: str) -> subprocess.Popen[bytes]:
    """The program in a process of its own, with pipes."""
    pipe = subprocess.PIPE
    return subprocess.Popen([*PROGRAM, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, env=environment())


@pytest.fixture
def run() -> Run:
    """Arguments, and `stdin` as text."""

    def assignor(*arguments: str, stdin: str | bytes = "") -> subprocess.CompletedProcess[str]:
        return program.assignor(*arguments, stdin=stdin.encode() if isinstance(stdin, str) else stdin)

    return assignor
