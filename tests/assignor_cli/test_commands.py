"""`assignor assign` and the program as a whole: what it prints where, and how it ends."""

import gzip
import json
import os
import pty
import signal
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest

from assignor_cli.app import build_app
from tests.checkout import ROOT, VECTORS
from tests.known import known
from tests.program import PROGRAM, SMOKE, assignor, assignor_process, environment, smoke, write_lines
from tests.recorded import REBALANCES, document, documents


def with_another_output(line: dict[str, Any]) -> dict[str, Any]:
    """The same line, but its recording says that nobody has to rejoin and one more topic is there."""
    return {**line, "output": {**line["output"], "internal_topics": {"silent_members-of": 7}}}


class TestAssign:
    def test_should_read_stdin_plain_and_gzip(self) -> None:
        plain = gzip.decompress(Path(SMOKE).read_bytes())
        outputs = {assignor("assign", "-", stdin=content).stdout for content in (plain, Path(SMOKE).read_bytes())}
        assert outputs == {assignor("assign", SMOKE).stdout}

    def test_should_write_to_a_file_and_keep_stdout_empty(self, tmp_path: Path) -> None:
        output = tmp_path / "out.jsonl"
        ran = assignor("assign", SMOKE, "--output", str(output))
        assert (ran.returncode, ran.stdout) == (0, "")
        assert output.read_text() == assignor("assign", SMOKE).stdout
        assert list(tmp_path.iterdir()) == [output]

    def test_should_read_a_placement_problem(self, tmp_path: Path) -> None:
        placement = documents("placements.jsonl.gz")[0]
        ran = assignor("assign", write_lines(tmp_path / "p.jsonl", [placement]))
        assert json.loads(ran.stdout) == {"id": placement["id"], "output": placement["output"]}

    def test_should_go_on_after_a_bad_line_and_name_its_place(self, tmp_path: Path) -> None:
        file = tmp_path / "mixed.jsonl"
        good, bad = json.dumps(smoke(2)), json.dumps({**smoke(3), "now_ms": "soon"})
        twice = '{"format": "rebalance/1", "format": "rebalance/1"}'
        file.write_text(f"{bad}\n\nnot json\n[]\n{twice}\n{{}}\n{good}\n")
        ran = assignor("assign", str(file))
        assert ran.returncode == 2
        assert [json.loads(line)["id"] for line in ran.stdout.splitlines()] == ["smoke.2"]
        said = ran.stderr.splitlines()
        assert said[0] == f"error: {file}:1: now_ms: must be a whole number, not str 'soon'"
        assert said[1].startswith(f"error: {file}:3: is not a line of JSON")
        assert said[2] == f"error: {file}:4: must be a JSON object"
        assert said[3] == f"error: {file}:5: is not a line of JSON: field 'format' is given twice"
        assert said[4].startswith(f"error: {file}:6: format: must be rebalance/1, placement/1 or streams_group/1")
        assert len(said) == 5

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"\xff\xfe{}", "is not UTF-8 text"),
            (b"[" * 200_000, "is nested too deeply"),
            (b'{"a": NaN}', "NaN is not JSON"),
            (b'{"now_ms": ' + b"9" * 5000 + b"}", "is not a line of JSON"),
            (b"\x1f\x8b\x08nonsense", "the gzip data is damaged"),
        ],
        ids=["utf-8", "nesting", "nan", "digits", "gzip"],
    )
    def test_should_call_a_line_unusable_whatever_it_is(self, content: bytes, message: str) -> None:
        ran = assignor("assign", "-", stdin=content)
        assert ran.returncode == 2
        assert message in ran.stderr
        assert "Traceback" not in ran.stderr

    def test_should_run_a_users_own_class_from_the_working_directory(self, tmp_path: Path) -> None:
        (tmp_path / "mine.py").write_text(
            textwrap.dedent(
                """
                from assignor import ClientPlacement, Placement

                class EverythingOnOne:
                    name = "EverythingOnOne"

                    def assign(self, problem, log):
                        first = min(problem.clients)
                        return Placement(False, {
                            each: ClientPlacement(frozenset(problem.tasks if each == first else ()), frozenset())
                            for each in problem.clients
                        })

                class Broken(EverythingOnOne):
                    def assign(self, problem, log):
                        return {}["no such key"]
                """
            )
        )
        line = smoke(3)
        line["input"]["assignor"] = "mine:EverythingOnOne"
        broken = json.loads(json.dumps(line))
        broken["input"]["assignor"] = "mine:Broken"
        unknown = json.loads(json.dumps(line))
        unknown["input"]["assignor"] = "yours:Class"
        file = write_lines(tmp_path / "lines.jsonl", [broken, line, unknown])
        ran = assignor_process("assign", file, "--format", "wide", cwd=tmp_path)
        assert ran.returncode == 2
        assert f"{file}:1: assignor: mine:Broken raised KeyError: 'no such key'" in ran.stderr
        assert f"{file}:3: assignor: 'yours:Class': there is no module 'yours' to import" in ran.stderr
        one, other = ran.stdout.splitlines()[1:3]
        assert "active 0_0 0_1 0_2 0_3 1_0 1_1 1_2 1_3 2_0 2_1 3_0 3_1;" in one
        assert "active nothing; standby nothing" in other

    def test_should_show_progress_only_where_stderr_is_a_terminal(self) -> None:
        assert assignor_process("assign", SMOKE).stderr == ""
        terminal, inside = pty.openpty()
        try:
            ran = subprocess.run(
                [*PROGRAM, "assign", SMOKE], stdout=subprocess.PIPE, stderr=inside, env=environment(), cwd=ROOT
            )
            os.close(inside)
            assert os.read(terminal, 65536)
        finally:
            os.close(terminal)
        assert ran.stdout.decode() == assignor("assign", SMOKE).stdout


class TestCheck:
    def test_should_show_the_first_differences_and_answer_no(self, tmp_path: Path) -> None:
        file = write_lines(tmp_path / "lines.jsonl", [smoke(2), with_another_output(smoke(4))])
        ran = assignor("assign", "--check", file, "--format", "wide")
        assert ran.returncode == 1
        assert "equal after decoding  1 of 2 (50.0 %)" in ran.stdout.splitlines()
        assert f"difference: {file}:2 smoke.4: internal topic silent_members-of is None, recorded is 7" in ran.stdout

    def test_should_count_and_show_errors_that_are_equal_but_for_their_text(self, tmp_path: Path) -> None:
        same, other = (document(REBALANCES, id) for id in ("v-201-65.0", "v-201-350.0"))
        other["output"] |= {"error": "StreamsException: another text", "error_cause": None}
        file = write_lines(tmp_path / "lines.jsonl", [same, other])
        ran = assignor("assign", "--check", file, "--format", "wide")
        assert ran.returncode == 0
        lines = ran.stdout.splitlines()
        assert {"equal after decoding  2 of 2 (100.0 %)", "errors equal in text  1 of 2 (50.0 %)"} <= set(lines)
        assert lines[-1] == (
            f"difference in text: {file}:2 v-201-350.0: error is StreamsException: Could not create topic "
            "app-KSTREAM-KEY-0-1-repartition., recorded is StreamsException: another text"
        )

    def test_should_tell_people_more_of_an_error_than_kafka_says(self, tmp_path: Path) -> None:
        file = write_lines(tmp_path / "lines.jsonl", [document(REBALANCES, "v-201-350.0")])
        said = assignor("assign", file, "--format", "wide").stdout
        assert (
            "error: StreamsException: Could not create topic app-KSTREAM-KEY-0-1-repartition. "
            "(the brokers refused to describe it: ClusterAuthorizationException: oracle: describe denied)"
        ) in said
        output = json.loads(assignor("assign", file).stdout)["output"]
        assert (output["error"], output["error_cause"]) == (
            "StreamsException: Could not create topic app-KSTREAM-KEY-0-1-repartition.",
            "ClusterAuthorizationException: oracle: describe denied",
        )

    def test_should_not_take_silence_for_a_yes(self, tmp_path: Path) -> None:
        without_output = {key: value for key, value in smoke(2).items() if key != "output"}
        ran = assignor("assign", "--check", write_lines(tmp_path / "lines.jsonl", [without_output]))
        assert ran.returncode == 2
        assert "output: is missing, so there is nothing to compare with" in ran.stderr
        empty = assignor("assign", "--check", "-")
        assert (empty.returncode, empty.stdout) == (2, "")


class TestProgram:
    def test_should_work_without_the_packages_of_an_extra(self, tmp_path: Path) -> None:
        """An entry point that cannot be imported leaves its commands out, and the help says so."""
        (tmp_path / "extra-1.dist-info").mkdir()
        (tmp_path / "extra-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: extra\nVersion: 1\n")
        (tmp_path / "extra-1.dist-info/entry_points.txt").write_text(
            "[assignor.commands]\nabsent = no_such_package:register\npresent = present_package:register\n"
        )
        (tmp_path / "present_package.py").write_text(
            "def register(app):\n    app.command('hello')(lambda: print('hi'))\n"
        )
        env = {**environment(), "PYTHONPATH": f"{ROOT}:{tmp_path}"}
        helped = subprocess.run([*PROGRAM, "--help"], capture_output=True, text=True, env=env, cwd=ROOT)
        assert "absent (No module named 'no_such_package')" in " ".join(helped.stdout.split())
        hello = subprocess.run([*PROGRAM, "hello"], capture_output=True, text=True, env=env, cwd=ROOT)
        assert (hello.returncode, hello.stdout) == (0, "hi\n")

    @pytest.mark.parametrize("command", ["explain", "assign", "simulate"])
    def test_should_say_in_a_few_lines_that_a_file_is_garbage(self, command: str, tmp_path: Path) -> None:
        file = tmp_path / "garbage.bin"
        file.write_bytes(b"\x80\xff\n" * 1000)
        ran = assignor(command, str(file))
        assert (ran.returncode, ran.stdout) == (2, "")
        said = ran.stderr.splitlines()
        assert len(said) == 6
        assert said[0] == f"error: {file}:1: is not UTF-8 text: invalid start byte at byte 0"
        assert said[5] == f"error: {file}: 995 more lines cannot be used: is this a recording?"

    def test_should_end_quietly_when_nobody_reads_on(self) -> None:
        lines = str(VECTORS / "recordings/threads2.jsonl.gz")
        command = [*PROGRAM, "assign", lines, lines]  # more than a pipe holds
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as ran:
            assert ran.stdout is not None
            ran.stdout.readline()
            ran.stdout.close()
            assert known(ran.stderr).read() == b""
        assert ran.returncode == 141, "as a shell reports SIGPIPE"

    def test_should_end_quietly_when_nobody_reads_the_help(self) -> None:
        reads, writes = os.pipe()
        os.close(reads)
        with os.fdopen(writes, "wb") as nobody:
            ran = subprocess.run([*PROGRAM, "--help"], stdout=nobody, stderr=subprocess.PIPE, env=environment())
        assert (ran.returncode, ran.stderr) == (141, b"")

    def test_should_end_quietly_at_ctrl_c(self) -> None:
        command = [*PROGRAM, "explain", "-"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, env=environment(), stdin=pipe, stdout=pipe, stderr=pipe) as ran:
            assert ran.stdin is not None
            assert ran.stderr is not None
            ran.stdin.write(b"nonsense\n")
            ran.stdin.flush()
            assert ran.stderr.readline().startswith(b"error: stdin:1: is not a line of JSON"), "it waits for more"
            ran.send_signal(signal.SIGINT)
            assert ran.stderr.read() == b""
        assert ran.returncode == 130

    def test_should_build_the_same_app_again(self) -> None:
        names = [[command.name for command in build_app().registered_commands] for _ in range(2)]
        assert names[0] == names[1]
        assert names[0][:4] == ["assign", "decode", "explain", "diff"]
