"""`assignor what-if`: which rounds it takes, what it prints, draws and writes, and how it ends."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from assignor.recording import parse_recorded_rebalance
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
    def test_should_print_a_table_the_tasks_and_one_sentence(self) -> None:
        ran = assignor("what-if", STATIC, "--id", "static.5", "--remove", "a", "--restore-rate", "1000", "-o", "wide")
        assert (ran.returncode, ran.stderr) == (0, "")
        lines = ran.stdout.splitlines()
        assert lines[0] == "static.5: what if a gone"
        rows = [line.split() for line in lines]
        assert ["as", "it", "is", "what", "if", "difference"] in rows
        assert ["instances", "3", "2", "-1"] in rows
        assert ["stream", "threads", "6", "4", "-2"] in rows
        assert ["standbys", "placed", "of", "those", "wanted", "100", "%", "100", "%", "0"] in rows
        assert ["records", "to", "restore", "0", "9,177", "+9,177"] in rows
        assert ["time", "to", "restore", "0", "ms", "2.4", "s", "+2.4", "s"] in rows
        assert ["follow-up", "rebalance", "needed", "no", "yes"] in rows
        assert "gone instances: a" in lines
        assert "17 tasks with copies elsewhere:" in lines
        assert "  1_1: active a -> c; standby -c +b; to restore: 1,870 on b" not in lines
        assert "  0_1: active a -> c; standby -c +b; to restore: 45 on b" in lines
        assert lines[-1] == (
            "12 active tasks on another instance than as it is, 6 standbys and 0 warm-ups new, 5 standbys gone; "
            "9,177 records to restore, 2.4 s at 1,000 records/s a thread; follow-up rebalance needed."
        )

    def test_should_show_twenty_tasks_and_count_the_rest(self) -> None:
        ran = assignor(
            "what-if", str(VECTORS / "recordings/threads2.jsonl.gz"), "--id", "threads2.9", "--add-instances", "3x4"
        )
        assert sum(line.startswith("  ") and ": " in line for line in ran.stdout.splitlines()) == 20
        assert "  and 4 more (--format json has all)" in ran.stdout.splitlines()

    def test_should_say_all_that_is_asked(self) -> None:
        asked = ("--set", "num.standby.replicas=0", *ONE_MORE, "--remove", "c", "--threads", "3", "--tags", "a:zone=x")
        more = ("--assignor", "LegacyStickyTaskAssignor", "--partitions", "wcflow-text=7", "--lags", "*=0")
        ran = assignor("what-if", WCFLOW, *asked, *more, "-o", "wide")
        assert ran.returncode == 0
        assert ran.stdout.splitlines()[0].partition(": what if ")[::2] == (
            "wcflow.12",
            "LegacyStickyTaskAssignor, num.standby.replicas=0, 1 instance of 2 threads more, c gone, 3 threads on "
            "every instance, tags on a (zone=x), 7 partitions of wcflow-text, a lag of 0 on all tasks",
        )

    def test_should_say_it_when_a_round_places_nothing(self, tmp_path: Path) -> None:
        line = smoke(3)
        line["input"]["failures"] = ["describe_topics"]
        ran = assignor("what-if", write_lines(tmp_path / "lines.jsonl", [line]), *ONE_MORE, "-o", "wide")
        assert ran.returncode == 0
        assert ran.stdout.splitlines()[-1].startswith(
            "As it is, no task is placed, so there is nothing to compare: StreamsException: Could not create topic "
        )


class TestRounds:
    def test_should_take_a_placement_problem(self, tmp_path: Path) -> None:
        (found,) = lines_of(write_lines(tmp_path / "p.jsonl", [*documents("placements.jsonl.gz")[:3]]), *ONE_MORE)
        assert len(found["processes_new"]) == 1

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

    def test_should_draw_the_instances_that_change_when_there_are_too_many(self, tmp_path: Path) -> None:
        picture = tmp_path / "what-if.svg"
        assert assignor("what-if", SMOKE, "--add-instances", "200", "--picture", str(picture)).returncode == 0
        assert "the 150 of 202 instances that change most" in picture.read_text()

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("--picture", "a.pdf"), "error: a.pdf: a picture's name ends in .svg or .png"),
            (("--picture", "a.svg", "--all"), "error: --picture: shows one rebalance, so it cannot go with --all"),
        ],
    )
    def test_should_say_at_once_that_it_cannot_draw(self, arguments: tuple[str, ...], message: str) -> None:
        ran = assignor("what-if", WCFLOW, *ONE_MORE, *arguments)
        assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", f"{message}\n")

    def test_should_draw_no_two_rounds(self, tmp_path: Path) -> None:
        ran = assignor("what-if", WCFLOW, SMOKE, *ONE_MORE, "--picture", str(tmp_path / "a.png"))
        assert ran.returncode == 2
        assert ran.stderr == "error: --picture: shows one rebalance, and these are 2; choose with --group or --id\n"
        assert not list(tmp_path.iterdir())


class TestUsage:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((), "error: nothing is to be different; say what with --set, --add-instances, --remove, ... (--help)"),
            ((*ONE_MORE, "--restore-rate", "0"), "error: --restore-rate: must be a number above 0, not 0"),
            ((*ONE_MORE, "--restore-rate", "inf"), "error: --restore-rate: must be a number above 0, not inf"),
            ((*ONE_MORE, "--group", "other"), f"error: {SMOKE}: there is no such rebalance"),
        ],
    )
    def test_should_end_with_2_and_one_clear_line(self, arguments: tuple[str, ...], message: str) -> None:
        ran = assignor("what-if", SMOKE, *arguments)
        assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", f"{message}\n")
