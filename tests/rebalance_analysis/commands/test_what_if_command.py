"""`assignor what-if`: which rounds it takes, what it prints, draws and writes, and how it ends."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from assignor.recording import parse_recorded_rebalance
from rebalance_analysis.commands import pictures
from rebalance_analysis.rerun import run_recorded
from rebalance_analysis.what_if import AddedInstances, Changes, changed
from tests.checkout import VECTORS
from tests.program import SMOKE, assignor, smoke, write_lines
from tests.recorded import documents

WCFLOW = str(VECTORS / "recordings/wcflow.jsonl.gz")
STATIC = str(VECTORS / "recordings/static.jsonl.gz")
ONE_MORE = ("--add-instances", "1x2")


def lines_of(*arguments: str) -> list[dict[str, Any]]:
    ran = assignor("what-if", *arguments, "--format", "json")
    assert (ran.returncode, ran.stderr) == (0, "")
    return [json.loads(line) for line in ran.stdout.splitlines()]


class TestText:
    def test_should_say_it_when_a_round_places_nothing(self, tmp_path: Path) -> None:
        line = smoke(3)
        line["input"]["failures"] = ["describe_topics"]
        ran = assignor("what-if", write_lines(tmp_path / "lines.jsonl", [line]), *ONE_MORE, "-o", "wide")
        assert ran.returncode == 0
        assert ran.stdout.splitlines()[-1].startswith(
            "As it is, no task is placed, so there is nothing to compare: StreamsException: Could not create topic "
        )


class TestRounds:
    def test_should_take_all_rounds_with_totals(self) -> None:
        *rounds, last = lines_of(WCFLOW, *ONE_MORE, "--all")
        assert [each["id"] for each in rounds] == [f"wcflow.{number}" for number in range(1, 13)]
        totals = last["totals"]
        assert (totals["rounds"], totals["not_placed"]) == (12, 0)
        assert totals["active_elsewhere"] == sum(each["active_elsewhere"] for each in rounds)
        for side in ("before", "after"):
            for measure in ("active_moved", "standby_moved", "warm_ups", "records_to_restore"):
                assert totals[side][measure] == sum(each[side]["measures"][measure] for each in rounds)
            assert totals[side]["probing_rebalances"] == sum(each[side]["probing_rebalance_needed"] for each in rounds)

    def test_should_print_a_row_for_each_round(self) -> None:
        ran = assignor("what-if", WCFLOW, *ONE_MORE, "--all")
        lines = ran.stdout.splitlines()
        assert [line.split()[0] for line in lines[1:13]] == [f"wcflow.{number}" for number in range(1, 13)]
        assert lines[0].split()[:7] == ["as", "is", ">", "what", "if", "moves", "standbys"]
        assert max(map(len, lines)) <= 80
        assert lines[13].startswith("12 rebalances ")
        assert len(lines) == 14

    def test_should_count_what_cannot_be_compared(self, tmp_path: Path) -> None:
        broken = {**smoke(3), "id": "broken"}
        broken["input"] = {**broken["input"], "failures": ["describe_topics"]}
        unknown = {**smoke(4), "id": "unknown"}
        unknown["input"] = {**unknown["input"], "changelog_end_offsets": None}
        file = write_lines(tmp_path / "lines.jsonl", [smoke(3), broken, unknown])
        lines = assignor("what-if", file, *ONE_MORE, "--all", "-o", "wide").stdout.splitlines()
        assert lines[2].startswith("broken  as it is, no task is placed: StreamsException: ")
        assert "unknown -> unknown" in lines[3]
        assert lines[-2:] == [
            "1 of them placed no tasks, as they are or what if, and are not in the sums",
            "1 of them have lags that are not known; their records to restore are not in the sum",
        ]

    @pytest.mark.parametrize("command", ["what-if", "simulate"])
    def test_should_name_only_the_wrong_line_when_there_is_no_other(self, tmp_path: Path, command: str) -> None:
        ran = assignor(command, write_lines(tmp_path / "lines.jsonl", [{}]), *ONE_MORE)
        assert (ran.returncode, ran.stderr.count("error: ")) == (2, 1), ran.stderr


class TestWrite:
    @pytest.mark.parametrize("name", ["changed.jsonl", "changed.jsonl.gz"])
    def test_should_write_what_the_other_commands_run(self, tmp_path: Path, name: str) -> None:
        file = tmp_path / name
        found = lines_of(WCFLOW, "--all", *ONE_MORE, "--threads", "3", "--write", str(file))
        assert list(tmp_path.iterdir()) == [file]
        content = file.read_bytes()
        written = [
            json.loads(line) for line in (gzip.decompress(content) if name.endswith("gz") else content).splitlines()
        ]
        assert [line["source"] for line in written] == ["generated"] * 12
        assert (
            written[0]["note"]
            == 'what if: {"add_instances": [{"count": 1, "threads": 2, "tags": {}}], "threads": {"*": 3}}'
        )
        ran = assignor("assign", str(file))
        assert ran.returncode == 0
        changes = Changes(add_instances=(AddedInstances(1, 2),), threads={"*": 3})
        rounds = [parse_recorded_rebalance(line) for line in documents("recordings/wcflow.jsonl.gz")]
        outputs = [run_recorded(changed(line, changes)).output() for line in rounds]
        assert [json.loads(line)["output"] for line in ran.stdout.splitlines()] == outputs
        assert [len(each["after"]["records_by_process"]) for each in found[:-1]] == [
            len(line["input"]["members"]) // 3 + 1 for line in written
        ]

    def test_should_write_a_placement_problem(self, tmp_path: Path) -> None:
        problem = write_lines(tmp_path / "p.jsonl", [documents("placements.jsonl.gz")[5]])
        file = str(tmp_path / "changed.jsonl")
        (found,) = lines_of(problem, *ONE_MORE, "--lags", "*=3", "--write", file)
        (output,) = [json.loads(line)["output"] for line in assignor("assign", file).stdout.splitlines()]
        assert found["processes_new"][0] in output["clients"]
        (again,) = lines_of(file, "--lags", "*=3")
        assert again["tasks"] == []

    def test_should_leave_no_file_half_written(self, tmp_path: Path) -> None:
        file = tmp_path / "changed.jsonl"
        ran = assignor("what-if", SMOKE, "--id", "nothing", *ONE_MORE, "--write", str(file))
        assert (ran.returncode, ran.stderr) == (2, f"error: {SMOKE}: there is no such rebalance\n")
        assert not list(tmp_path.iterdir())


class TestPicture:
    def test_should_draw_every_instance_on_both_sides(self, tmp_path: Path) -> None:
        picture = tmp_path / "what-if.svg"
        arguments = ("what-if", WCFLOW, *ONE_MORE, "--threads", "a=3", "--picture", str(picture))
        assert assignor(*arguments).returncode == 0
        content = picture.read_text()
        for text in ("wcflow.12", "a, 2 -&gt; 3 threads", "c, 2 threads", " (new), 2 threads", "not there", "warm-up"):
            assert text in content
        assignor(*arguments)
        assert picture.read_text() == content

    def test_should_draw_the_instances_that_change_most(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pictures, "_MOST_ROWS", 3)
        picture = tmp_path / "what-if.svg"
        assert assignor("what-if", SMOKE, "--add-instances", "4", "--picture", str(picture)).returncode == 0
        assert "the 3 of 6 instances that change most" in picture.read_text()

    def test_should_draw_no_two_rounds(self, tmp_path: Path) -> None:
        ran = assignor("what-if", WCFLOW, SMOKE, *ONE_MORE, "--picture", str(tmp_path / "a.png"))
        assert ran.returncode == 2
        assert ran.stderr == "error: --picture: shows one rebalance, and these are 2; choose with --group or --id\n"
        assert not list(tmp_path.iterdir())
