"""`assignor explain` over a history: the story of a task or a group, out of files."""

from __future__ import annotations

import gzip
import json
import re
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from assignor.reading import group_history
from assignor.story.words import duration, time_text
from tests.checkout import ROOT, VECTORS
from tests.program import SMOKE, assignor, write_lines
from tests.recorded import documents

WCFLOW = str(VECTORS / "recordings/wcflow.jsonl.gz")
THREADS = str(VECTORS / "recordings/threads2.jsonl.gz")
DOCUMENT = ROOT / "docs/batch/history.md"
BRIDGE = str(VECTORS / "recordings/bridge1.jsonl.gz")


def lines_of(name: str) -> list[dict[str, Any]]:
    return documents(f"recordings/{name}.jsonl.gz")


class TestTaskStory:
    def test_should_tell_the_last_rounds_of_a_task(self) -> None:
        ran = assignor("explain", WCFLOW, "--task", "1_2", "--last", "8")
        assert (ran.returncode, ran.stderr) == (0, "")
        told = ran.stdout.split("\n\n")
        assert told[0] == "group wcflow, task 1_2: the last 8 of 12 rebalances, generations 5 to 12"
        first = told[1].splitlines()
        assert first[:5] == [
            "generation 5  2026-11-21 10:44:02.140Z (+1 min 0 s)",
            '  trigger    the probing deadline, 0.2 s before (note: "+c")',
            "  was        active on 83dd50fb (a-StreamThread-2-consumer), standby on 402a4ca9 "
            "(b-StreamThread-2-consumer), warm-up on 52a2381e (c-StreamThread-1-consumer)",
            "  is         active on 52a2381e (c-StreamThread-1-consumer, lag 3), not handed out yet, standby on "
            "83dd50fb (a-StreamThread-2-consumer, running it)",
            "  outcome    held back – waiting for revocation",
        ]
        assert first[5].startswith("  because    caught up: 83dd50fb (running it), 402a4ca9 (lag 3), 52a2381e (lag 3);")
        assert told[2].splitlines()[1] == '  trigger    follow-up: 1_2, 0_4 waited to be given up (note: "+c")'
        assert told[3] == (
            "generations 7–10  over 1 min 2 s  stays active on 52a2381e (c-StreamThread-1-consumer), standby on "
            "83dd50fb (a-StreamThread-2-consumer); 4 rebalances"
        )
        assert told[4].splitlines()[1] == (
            "  trigger    402a4ca9 is gone with b-StreamThread-1-consumer, b-StreamThread-2-consumer "
            '(note: "kill -9 b")'
        )
        assert told[6].splitlines() == [
            "in 8 rebalances",
            "  moved      2 times",
            "  warming up 0 rebalances had a warm-up copy of it",
            "  no owner   at most 2.2 s between rebalances",
            "  is now     active on 83dd50fb (a-StreamThread-2-consumer, lag 0), standby on 52a2381e "
            "(c-StreamThread-1-consumer, lag 0)",
            "  waits for  nothing",
        ]

    def test_should_tell_every_round_in_full_when_asked(self) -> None:
        folded = assignor("explain", WCFLOW, "--task", "1_2", "--last", "12").stdout
        full = assignor("explain", WCFLOW, "--task", "1_2", "--last", "12", "--all").stdout
        assert (folded.count("  because "), full.count("  because ")) == (6, 12)
        assert "; 1 rebalance\n" in folded
        assert "; 4 rebalances\n" in folded

    def test_should_take_ten_rounds_when_only_a_group_is_named(self) -> None:
        ran = assignor("explain", WCFLOW, "--group", "wcflow", "--task", "1_2")
        assert ran.stdout.splitlines()[0] == (
            "group wcflow, task 1_2: the last 10 of 12 rebalances, generations 3 to 12"
        )

    def test_should_say_what_a_task_waits_for(self, tmp_path: Path) -> None:
        lines = lines_of("wcflow")
        cut = [write_lines(tmp_path / f"{count}.jsonl", list(lines[:count])) for count in (4, 5)]
        warming, held_back = (assignor("explain", file, "--task", "1_2", "--last", "1").stdout for file in cut)
        waiting_for_a_turn = assignor("explain", cut[0], "--task", "2_2", "--last", "1").stdout
        assert warming.splitlines()[-1] == (
            "  waits for  52a2381e (lag 1282) to catch up; the group looks again at 2026-11-21 10:44:01.944Z"
        )
        assert held_back.splitlines()[-1] == "  waits for  a-StreamThread-2-consumer to give it up"
        assert "  no owner   handed to nobody since 2026-11-21 10:44:02.140Z" in held_back.splitlines()
        assert "to get a turn at warming up, max.warmup.replicas is spent" in waiting_for_a_turn.splitlines()[-1]

    def test_should_say_where_another_leader_decided(self) -> None:
        ran = assignor("explain", BRIDGE, "--task", "0_0", "--last", "9")
        marked = "  beware     recorded placement differs from this program's: reasons are of a re-run (led by python)"
        assert ran.stdout.splitlines().count(marked) == 3

    def test_should_say_what_is_not_recorded_between(self, tmp_path: Path) -> None:
        lines = lines_of("wcflow")
        file = write_lines(tmp_path / "gap.jsonl", [lines[0], lines[3]])
        told = assignor("explain", file, "--task", "1_2", "--last", "5").stdout
        assert "  gap        2 rebalances before this one not recorded" in told.splitlines()

    def test_should_give_the_story_as_json(self) -> None:
        ran = assignor("explain", WCFLOW, "--task", "1_2", "--last", "2", "--format", "json")
        (line,) = ran.stdout.splitlines()
        told = json.loads(line)
        assert set(told) == {"group_id", "task", "rounds", "summary"}
        assert [each["generation_id"] for each in told["rounds"]] == [11, 12]
        first = told["rounds"][0]
        assert {key: first[key] for key in ("id", "since_previous_ms", "change", "outcome", "note")} == {
            "id": "wcflow.11",
            "since_previous_ms": 43730,
            "change": "held back",
            "outcome": "waiting for revocation",
            "note": "kill -9 b",
        }
        assert [trigger["kind"] for trigger in first["triggers"]] == ["left"]
        assert told["summary"]["moves"] == 1
        assert first["copies"][0] == {
            "role": "active",
            "process": "83dd50fb-96f0-4129-9cdd-bb1ad378ad89",
            "member": "a-StreamThread-2-consumer-7fbe1aa2-5c03-4a56-b28c-1f42a74b8c4e",
            "name": "a-StreamThread-2-consumer",
            "lag": 0,
            "held_back": True,
        }


class TestGroupStory:
    def test_should_tell_a_group_in_one_line_for_each_round(self) -> None:
        ran = assignor("explain", THREADS, "--last", "20")
        told = ran.stdout.splitlines()
        assert (ran.returncode, len(told)) == (0, 16)
        assert told[0] == "group threads2: 14 rebalances, generations 1 to 14"
        assert told[1] == (
            'generation 1  2026-11-21 10:37:02.517Z  nothing earlier is recorded (note: "a3 b2"); 24 of 24 tasks placed'
        )
        assert told[3] == (
            "generation 3  2026-11-21 10:37:17.890Z (+11.2 s)  57b3d74d joined with c-StreamThread-1-consumer, "
            'c-StreamThread-2-consumer, c-StreamThread-3-consumer, c-StreamThread-4-consumer (note: "add c4"); '
            "14 of 24 tasks move: 0_0 16707536 → 57b3d74d, 0_2 16707536 → 57b3d74d, 0_4 16707536 → 57b3d74d, "
            "0_5 5435a4f9 → 57b3d74d and 10 more; 15 held back"
        )
        assert told[4].endswith("no task moves; 15 handed over")
        assert told[15] == "80 moves of active tasks in 14 rebalances"

    def test_should_give_all_moves_as_json(self) -> None:
        told = json.loads(assignor("explain", THREADS, "--last", "20", "--format", "json").stdout)
        assert [len(each["moves"]) for each in told["rounds"]] == [24, 0, 14, 0, 16, 0, 16, 0, 17, 0, 17, 0, 0, 0]
        assert told["summary"] == {"moves": 80}

    def test_should_count_what_another_leader_placed_otherwise(self) -> None:
        told = assignor("explain", BRIDGE, "--last", "9").stdout.splitlines()
        assert told[1].endswith("12 placed otherwise than this program does (led by python)")

    def test_should_tell_a_round_that_placed_nothing(self, tmp_path: Path) -> None:
        line = lines_of("wcflow")[1]
        del line["output"]
        line["input"]["cluster"]["topics"] = {}
        told = assignor("explain", write_lines(tmp_path / "e.jsonl", [line]), "--last", "1").stdout
        assert "no task was placed: INCOMPLETE_SOURCE_TOPIC_METADATA" in told


class TestChoosing:
    def test_should_ask_for_a_group_when_there_are_several(self) -> None:
        ran = assignor("explain", WCFLOW, THREADS, "--last", "3")
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr == "error: --group: there are several groups, name one: threads2, wcflow\n"

    def test_should_choose_one_group_of_many_files_in_any_order(self, tmp_path: Path) -> None:
        mixed = [*lines_of("smoke"), *lines_of("wcflow")[::-1]]
        (tmp_path / "mixed.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in mixed))
        (tmp_path / "again.jsonl.gz").write_bytes(Path(WCFLOW).read_bytes())
        ran = assignor("explain", str(tmp_path), "--group", "wcflow", "--task", "1_2", "--last", "8")
        assert ran.stdout == assignor("explain", WCFLOW, "--task", "1_2", "--last", "8").stdout

    def test_should_keep_the_newest_of_a_long_history(self, tmp_path: Path) -> None:
        line = json.dumps(lines_of("smoke")[1])
        with gzip.open(tmp_path / "long.gz", "wt") as file:
            for generation in (*range(200, 300), *range(100, 200)):
                file.write(line.replace('"generation_id": 2', f'"generation_id": {generation}') + "\n")
        told = json.loads(assignor("explain", str(tmp_path / "long.gz"), "--last", "3", "--format", "json").stdout)
        assert [each["generation_id"] for each in told["rounds"]] == [297, 298, 299]
        assert told["rounds"][0]["generations_not_recorded"] == 0  # it was compared with 296
        text = assignor("explain", str(tmp_path / "long.gz"), "--last", "3").stdout
        assert text.splitlines()[0] == "group smoke: the last 3 of 200 rebalances, generations 297 to 299"

    def test_should_take_the_chain_of_placement_problems_for_a_group(self, tmp_path: Path) -> None:
        chains: dict[str, list[object]] = {}
        for line in documents("placements.jsonl.gz"):
            chains.setdefault(line["meta"].get("chain", ""), []).append(line)
        name, chain = next((name, chain) for name, chain in chains.items() if name and len(chain) > 2)
        file = write_lines(tmp_path / "p.jsonl", chain)
        told = json.loads(assignor("explain", file, "--group", name, "--last", "99", "--format", "json").stdout)
        assert [each["generation_id"] for each in told["rounds"]] == list(range(1, len(chain) + 1))
        assert [each["id"] for each in told["rounds"]] == [line["id"] for line in chain if isinstance(line, dict)]
        assert assignor("explain", file, "--last", "2").stdout.splitlines()[0] == (
            f"group {name}: the last 2 of {len(chain)} rebalances, generations {len(chain) - 1} to {len(chain)}"
        )

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (("--group", "other"), 2, "error: --group: there is no rebalance of 'other', only of smoke"),
            (("--task", "9_9", "--last", "2"), 1, "nothing to explain: no task 9_9 in these rebalances of group smoke"),
            (("--last", "2", "--id", "smoke.1"), 2, "error: --id: chooses one line; a story has several"),
            (("--last", "2", "--coordinator", "http://127.0.0.1:1"), 2, "error: --coordinator, --token-file: asks"),
        ],
    )
    def test_should_say_why_there_is_nothing_to_tell(self, arguments: tuple[str, ...], code: int, message: str) -> None:
        ran = assignor("explain", SMOKE, *arguments)
        assert (ran.returncode, ran.stdout) == (code, "")
        assert ran.stderr.startswith(message)

    def test_should_refuse_no_rounds_at_all(self) -> None:
        ran = assignor("explain", SMOKE, "--last", "0")
        assert (ran.returncode, ran.stdout) == (2, "")
        empty = assignor("explain", "-", "--last", "2")
        assert (empty.returncode, empty.stderr) == (2, "error: there are no recorded rebalances to tell the story of\n")

    def test_should_set_bad_lines_aside_and_tell_the_rest(self, tmp_path: Path) -> None:
        good = lines_of("smoke")
        later = {**good[2], "input": {**good[2]["input"], "assignor": "StickyTaskAssignor"}}
        file = tmp_path / "mixed.jsonl"
        lines = [json.dumps(good[0]), "nonsense", '{"format": "rebalance/1"}', json.dumps(good[1]), json.dumps(later)]
        file.write_text("\n".join([*lines, json.dumps(good[3])]))
        ran = assignor("explain", str(file), "--last", "9", "--format", "json")
        assert ran.returncode == 2
        assert [each["generation_id"] for each in json.loads(ran.stdout)["rounds"]] == [1, 2, 4]
        said = ran.stderr.splitlines()
        assert said[0].startswith(f"{file}:2: is not a line of JSON")
        assert said[1] == f"{file}:3: is no recorded rebalance: it has no group_id, generation_id and now_ms"
        assert said[2].startswith(f"{file}:5: ")
        assert "not built yet" in said[2]
        assert len(said) == 3

    def test_should_say_when_every_line_is_bad(self) -> None:
        ran = assignor("explain", "-", "--group", "one", stdin=b"nonsense\n")
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr.startswith("stdin:1: is not a line of JSON")

    @pytest.mark.parametrize("value", ["no_such_module:read", None])
    def test_should_name_the_extra_that_a_coordinator_needs(
        self, monkeypatch: pytest.MonkeyPatch, value: str | None
    ) -> None:
        group = group_history.ENTRY_POINT_GROUP
        installed = EntryPoints([EntryPoint("coordinator", value, group)] if value else [])
        monkeypatch.setattr(group_history, "entry_points", lambda **chosen: installed.select(**chosen))
        ran = assignor("explain", "--task", "0_3")
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr.startswith("error: to ask a coordinator: pip install 'assignor[coordinator]' (")


def test_should_print_what_the_document_shows() -> None:
    blocks = re.findall(r"```console\n\$ assignor (explain .*)\n((?:.*\n)*?)```", DOCUMENT.read_text(encoding="utf-8"))
    assert len(blocks) == 2
    for command, shown in blocks:
        recording, *arguments = command.split()[1:]
        told = assignor("explain", str(ROOT / recording), *arguments).stdout.splitlines()
        assert len(told) == len(shown.splitlines())
        for line, documented in zip(told, shown.splitlines(), strict=True):
            start = documented.removesuffix(" …")
            assert line == documented or (start != documented and line.startswith(start))


class TestWords:
    @pytest.mark.parametrize(
        ("ms", "text"),
        [
            (0, "0.0 s"),
            (-1_500, "-1.5 s"),
            (59_949, "59.9 s"),
            (59_999, "1 min 0 s"),
            (61_000, "1 min 1 s"),
            (3_660_000, "1 h 1 min"),
        ],
    )
    def test_should_say_how_long_something_took(self, ms: int, text: str) -> None:
        assert duration(ms) == text

    def test_should_say_a_time_no_calendar_has(self) -> None:
        assert time_text(0) == "1970-01-01 00:00:00.000Z"
        assert time_text(2**62) == f"{2**62} ms"
