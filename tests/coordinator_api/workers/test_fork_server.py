"""The process that workers are forked from, beside a service that is killed."""

from __future__ import annotations

import socket
import subprocess
import sys

from coordinator_api.workers.worker_process import COMMAND, END

_PROGRAM = "from coordinator_api.workers.worker_process import main; main({descriptor}, ())"
_TIMEOUT_S = 60


def test_should_end_without_a_word_when_nobody_is_left_to_read_its_answer() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(_TIMEOUT_S)
    service, server = socket.socketpair()
    service.sendall(COMMAND.pack(END, ended.pid))
    service.close()

    program = _PROGRAM.format(descriptor=server.fileno())
    run = subprocess.run(
        [sys.executable, "-c", program],
        pass_fds=[server.fileno()],
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    server.close()

    assert (run.returncode, run.stderr) == (0, b"")
