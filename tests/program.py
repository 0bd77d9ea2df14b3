"""Runs the program `assignor` in tests.

`assignor` shares the process of the test, to save its start; `assignor_process` has its own, for what depends on one:
pipes, terminals, imports.
"""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from assignor_cli.app import main
from tests.checkout import ROOT, VECTORS
from tests.recorded import document

SMOKE = str(VECTORS / "recordings/smoke.jsonl.gz")
BRIDGE = str(VECTORS / "recordings/bridge1.jsonl.gz")
PROGRAM = [sys.executable, "-c", "from assignor_cli.app import main; main()"]


def assignor(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    streams = [io.TextIOWrapper(io.BytesIO(content), encoding="utf-8") for content in (stdin, b"", b"")]
    with (
        mock.patch.multiple(sys, stdin=streams[0], stdout=streams[1], stderr=streams[2], argv=["assignor", *arguments]),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    written = []
    for stream in streams[1:]:
        stream.flush()
        buffer = stream.buffer
        assert isinstance(buffer, io.BytesIO)
        written.append(buffer.getvalue().decode())
    return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), *written)


def assignor_process(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, cwd=cwd, env=environment())


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def write_lines(path: Path, lines: list[object]) -> str:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return str(path)


def smoke(number: int) -> dict[str, Any]:
    return document("recordings/smoke.jsonl.gz", f"smoke.{number}")
