"""A command at a wrong address says so while one still looks, and Ctrl-C ends it at once."""

import os
import signal
import socket

import pytest

from tests.warm_program import WarmProgram

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
        arguments = (*command, "--bootstrap-server", address, "--group", "orders")
        reader, writer = os.pipe()
        with os.fdopen(reader) as said, os.fdopen(writer, "w") as stderr:
            process = WarmProgram(
                arguments, cwd=directory, environment=os.environ, stdout=stderr.fileno(), stderr=stderr.fileno()
            )
            stderr.close()
            try:
                assert said.readline() == (
                    f"Kafka at {address} has not answered yet; asking for 60 s at most (default.api.timeout.ms)\n"
                )
                process.send_signal(signal.SIGINT)
                assert process.wait(_LONGEST_END_S) == 0
                assert said.read() == last_words
            finally:
                process.kill()
                process.wait()
