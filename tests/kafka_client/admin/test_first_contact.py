"""A command at a wrong address says so while one still looks, and Ctrl-C ends it at once."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import pytest

_PROGRAM = "from assignor.commands import main; main()"
_LONGEST_END_S = 30.0


@pytest.mark.parametrize(
    "command, last_words",
    [(("record",), "0 lines, 0 of them not as 4.3.1 decides\n"), (("lead", "--topology", "topology.json"), "")],
    ids=["record", "lead"],
)
def test_should_tell_that_nothing_answers_and_end_when_it_is_interrupted(
    command: tuple[str, ...], last_words: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("contact")
    (directory / "topology.json").write_text('{"subtopologies": [], "copartition_groups": []}')
    with socket.socket() as closed:  # bound, and never listening
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *command, "--bootstrap-server", address, "--group", "orders"],
            cwd=directory,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None
            first = process.stderr.readline()
            assert first == (
                f"Kafka at {address} has not answered yet; asking for 60 s at most (default.api.timeout.ms)\n"
            )
            process.send_signal(signal.SIGINT)
            assert process.wait(_LONGEST_END_S) == 0
            assert process.stderr.read() == last_words
        finally:
            process.kill()
            process.wait()
            process.stderr.close()  # type: ignore[union-attr]
