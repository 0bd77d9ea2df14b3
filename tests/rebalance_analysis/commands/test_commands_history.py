"""`assignor explain` over a history: the history of a task or a group, out of files."""

import gzip
import json
import re
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from rebalance_analysis.reading import recorded_group, sources
from tests.checkout import ROOT, VECTORS
from tests.program import assignor, write_lines
from tests.recorded import documents

WCFLOW = str(VECTORS / "recordings/wcflow.jsonl.gz")
THREADS = str(VECTORS / "recordings/threads2.jsonl.gz")
BRIDGE = str(VECTORS / "recordings/bridge1.jsonl.gz")


def lines_of(name: str) -> list[dict[str, Any]]:
    return documents(f"recordings/{name}.jsonl.gz")


class TestTaskHistory:
    def test_should_say_what_is_not_recorded_between(self, tmp_path: Path) -> None:
        lines = lines_of("wcflow")
        file = write_lines(tmp_path / "gap.jsonl", [lines[0], lines[3]])
        told = assignor("explain", file, "--task", "1_2", "--last", "5").stdout
        assert "  gap        2 rebalances before this one not recorded" in told.splitlines()

    def test_should_say_which_generations_between_never_got_an_assignment(self, tmp_path: Path) -> None:
        lines = lines_of("wcflow")
        interrupted = {key: value for key, value in lines[2].items() if key != "output"} | {"interrupted": True}
        file = write_lines(tmp_path / "gap.jsonl", [lines[0], interrupted, lines[3]])
        told = assignor("explain", file, "--task", "1_2", "--last", "5").stdout
        assert [line for line in told.splitlines() if "  gap  " in line] == [
            "  gap        1 rebalance before this one not recorded",
            "  gap        1 generation before this one never got an assignment",
        ]
        checked = assignor("assign", "--check", file)
        assert (checked.returncode, "not compared          1" in checked.stdout) == (0, True)

    def test_should_give_the_history_as_json(self) -> None:
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


class TestGroupHistory:
    @pytest.mark.parametrize(
        ("count", "follows"),
        [
            (1, "another rebalance, as soon as the leader sees wcflow-by-word-repartition, which this one created"),
            (3, "a follow-up rebalance at once, which hands over what was given up"),
            (
                12,
                "a probing rebalance at 2026-11-21 10:47:51.346Z, because 1_1, 1_5, 2_1, 2_3 to 2_5 are not yet on the "
                "instance where they belong (assignor simulate says when the group settles)",
            ),
        ],
    )
    def test_should_say_which_rebalance_follows(self, count: int, follows: str, tmp_path: Path) -> None:
        file = write_lines(tmp_path / "cut.jsonl", [*lines_of("wcflow")[:count]])
        told = assignor("explain", file).stdout.partition("\nnext: ")[2].partition("\n\n")[0]
        assert " ".join(told.split()) == follows

    def test_should_not_tell_a_trigger_again_with_which_a_recorder_begins_its_note(self, tmp_path: Path) -> None:
        """Of the notes that a recorder writes, only what is new is told."""
        lines = [*lines_of("wcflow")[1:4]]
        notes = ("topology: inferred", "c joined with 2 threads; topology: inferred", "topology: from words.txt")
        noted = [{**line, "note": note} for line, note in zip(lines, notes, strict=True)]
        told = assignor("explain", write_lines(tmp_path / "noted.jsonl", [*noted])).stdout
        assert [line for line in told.splitlines() if "  trigger " in line][:2] == [
            '  trigger    nothing earlier is recorded (note: "topology: inferred")',
            "  trigger    c joined with 2 threads",
        ]
        assert '(note: "topology: from words.txt")' in " ".join(told.split())

    def test_should_call_instances_without_client_id_by_their_process_id(self, tmp_path: Path) -> None:
        """Kafka Streams then puts the process id into the client ids; a leader is told no client ids at all."""
        lines = [*lines_of("wcflow")[2:4]]
        processes = {"a": "83dd50fb-96f0-4129-9cdd-bb1ad378ad89", "c": "52a2381e-f324-4911-a95a-e99ec1c20cf4"}
        for line in lines:
            for name, process in processes.items():
                text = json.dumps(line["input"]["members"]).replace(f'"{name}-Stream', f'"wcflow-{process}-Stream')
                line["input"]["members"] = json.loads(text)
            for member in line["input"]["members"].values():
                member["client_id"] = None
            del line["output"]
        told = assignor("explain", write_lines(tmp_path / "led.jsonl", [*lines]), "--task", "1_2").stdout
        assert (
            "active on 83dd50fb (thread 2, running it), standby on b (thread 2, lag 5), warm-up on 52a2381e (thread 1,"
        ) in " ".join(told.split())


class TestChoosing:
    def test_should_tell_of_each_group_when_there_are_several(self) -> None:
        told = assignor("explain", WCFLOW, THREADS, "--last", "3").stdout
        one, other = (assignor("explain", file, "--last", "3").stdout for file in (WCFLOW, THREADS))
        assert told == f"{one}\n{other}"

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

    def test_should_set_bad_lines_aside_and_tell_the_rest(self, tmp_path: Path) -> None:
        good = lines_of("smoke")
        later = {**good[2], "input": {**good[2]["input"], "assignor": "Later"}}
        file = tmp_path / "mixed.jsonl"
        lines = [json.dumps(good[0]), "nonsense", '{"format": "rebalance/1"}', json.dumps(good[1]), json.dumps(later)]
        file.write_text("\n".join([*lines, json.dumps(good[3])]))
        ran = assignor("explain", str(file), "--last", "9", "--format", "json")
        assert ran.returncode == 2
        assert [each["generation_id"] for each in json.loads(ran.stdout)["rounds"]] == [1, 2, 4]
        said = ran.stderr.splitlines()
        assert said[0].startswith(f"error: {file}:2: is not a line of JSON")
        assert said[1] == f"error: {file}:3: is no recorded rebalance: it has no group_id, generation_id and now_ms"
        assert said[2].startswith(f"error: {file}:5: ")
        assert "assignor: must be one of HighAvailabilityTaskAssignor" in said[2]
        assert len(said) == 3

    def test_should_say_when_every_line_is_bad(self) -> None:
        ran = assignor("explain", "-", "--group", "one", stdin=b"nonsense\n")
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr.startswith("error: stdin:1: is not a line of JSON")

    @pytest.mark.parametrize("value", ["no_such_module:read", None])
    def test_should_name_the_extra_for_a_coordinator(self, monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
        group = recorded_group.ENTRY_POINT_GROUP
        installed = EntryPoints([EntryPoint("coordinator", value, group)] if value else [])
        monkeypatch.setattr(sources, "entry_points", lambda **chosen: installed.select(**chosen))
        ran = assignor("explain", "--task", "0_3")
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr.startswith("error: to ask a coordinator: pip install 'assignor[coordinator]' (")


@pytest.mark.parametrize(("name", "blocks"), [("batch/history.md", 2), ("how-to/read-an-explanation.md", 3)])
def test_should_print_what_the_document_shows(name: str, blocks: int) -> None:
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    found = re.findall(r"```console\n\$ assignor (explain .*)\n((?:.*\n)*?)```", text)
    assert len(found) == blocks
    for command, shown in found:
        recording, *arguments = command.split()[1:]
        assert assignor("explain", str(ROOT / recording), *arguments).stdout == shown
