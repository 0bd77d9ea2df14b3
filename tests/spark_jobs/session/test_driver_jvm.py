"""What is left of a JVM whose start was interrupted."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from spark_engine.session.driver_jvm import driver_jvm
from spark_engine.session.interrupts import interruptible


def test_should_end_a_jvm_that_was_just_being_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal arrives when there is a process that its caller does not know yet. `spark-submit` is a shell script
    that never ends.
    """
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text("#!/bin/sh\nexec sleep 600\n")
    submit.chmod(0o755)
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def interrupted_start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(start(*arguments, **options))
        signal.raise_signal(signal.SIGTERM)
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", interrupted_start)
    with (
        (tmp_path / "log").open("wb") as log,
        pytest.raises(KeyboardInterrupt),
        interruptible(),
        driver_jvm(tmp_path, [], log),
    ):
        pytest.fail("it was interrupted")
    try:
        assert started[0].poll() == -signal.SIGKILL
    finally:
        started[0].kill()
        started[0].wait()
