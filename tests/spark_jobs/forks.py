"""A module that leaves a process behind, and fails."""

import os
import signal
from pathlib import Path

PIDS_VARIABLE = "FORKED_PIDS"

if (pids := os.environ.get(PIDS_VARIABLE)) is not None:
    if (pid := os.fork()) == 0:
        signal.pause()
    with Path(pids).open("a") as file:
        file.write(f"{pid}\n")
    raise RuntimeError("the parent fails")
