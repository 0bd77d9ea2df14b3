"""A command at a wrong address says so while one still looks, and Ctrl-C ends it at once."""

import os
import signal
import socket
from contextlib import ExitStack
from pathlib import Path

from tests.warm_program import WarmProgram

_LONGEST_END_S = 30.0


def test_should_say_that_nothing_answers_and_end_when_it_is_interrupted(tmp_path: Path) -> None:
    """Both commands run at the same time, because the line comes after three seconds."""
    (tmp_path / "topology.json").write_text('{"subtopologies": [], "copartition_groups": []}')
    last_words = {"record": "0 lines, 0 of them not as Kafka decides\n", "lead --topology topology.json": ""}
    with socket.socket() as closed, ExitStack() as cleanup:  # the socket is bound, and never listens
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        started = {}
        for command in last_words:
            reader, writer = os.pipe()
            lines = cleanup.enter_context(os.fdopen(reader))
            arguments = (*command.split(), "--bootstrap-server", address, "--group", "orders")
            process = WarmProgram(arguments, cwd=tmp_path, environment=os.environ, stdout=writer, stderr=writer)
            os.close(writer)
            cleanup.callback(process.wait)
            cleanup.callback(process.kill)
            started[command] = process, lines
        for command, (process, lines) in started.items():
            assert lines.readline() == (
                f"Kafka at {address} has not answered yet; asking for 60 s at most (default.api.timeout.ms)\n"
            )
            process.send_signal(signal.SIGINT)
            assert process.wait(_LONGEST_END_S) == 0
            assert lines.read() == last_words[command]
