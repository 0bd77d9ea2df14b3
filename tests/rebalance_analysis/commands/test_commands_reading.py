"""`assignor explain`, `diff` and `decode`: what they print where, and how they end."""

import base64
import json
from pathlib import Path

from tests.program import SMOKE, assignor, smoke, write_lines
from tests.recorded import document, documents


class TestExplain:
    def test_should_explain_all_tasks_as_json(self) -> None:
        ran = assignor("explain", SMOKE, "--id", "smoke.3", "--format", "json")
        explained = [json.loads(line) for line in ran.stdout.splitlines()]
        stateful = [f"{subtopology}_{partition}" for subtopology in range(2) for partition in range(4)]
        assert [each["task"] for each in explained] == [*stateful, "2_0", "2_1", "3_0", "3_1"]
        assert {each["outcome"] for each in explained} == {"kept", "waiting for revocation"}

    def test_should_explain_a_placement(self, tmp_path: Path) -> None:
        file = write_lines(tmp_path / "p.jsonl", [documents("placements.jsonl.gz")[0]])
        ran = assignor("explain", file, "--task", "1_0")
        assert ran.returncode == 0
        assert "  is         active on 44d57d42 (lag 798,372), standby on 11730c54" in ran.stdout

    def test_should_say_why_no_task_was_placed(self, tmp_path: Path) -> None:
        file = write_lines(tmp_path / "e.jsonl", [document("rebalances.jsonl.gz", "v-201-399.0")])
        ran = assignor("explain", file)
        assert ran.returncode == 0
        assert "  error      no task was placed: ASSIGNMENT_ERROR" in ran.stdout.splitlines()
        told = json.loads(assignor("explain", file, "-o", "json").stdout)
        assert told == {"id": "v-201-399.0", "task": None, "text": "no task was placed: ASSIGNMENT_ERROR"}

    def test_should_name_the_code_of_a_rebalance_without_tasks(self, tmp_path: Path) -> None:
        line = smoke(1)
        del line["output"]
        line["input"]["topology"] = {"subtopologies": [], "copartition_groups": []}
        told = json.loads(assignor("explain", write_lines(tmp_path / "e.jsonl", [line]), "-o", "json").stdout)
        assert told == {"id": "smoke.1", "task": None, "text": "no task was placed: NONE"}


class TestDiff:
    def test_should_find_a_recording_and_what_was_assigned_the_same(self, tmp_path: Path) -> None:
        output = tmp_path / "out.jsonl"
        assignor("assign", SMOKE, "--output", str(output))
        ran = assignor("diff", SMOKE, str(output), "--format", "json")
        assert ran.returncode == 0
        compared = [json.loads(line) for line in ran.stdout.splitlines()]
        assert [each["id"] for each in compared] == [f"smoke.{number}" for number in range(1, 5)]
        assert [each["tasks"] for each in compared] == [12, 12, 11, 12]  # one is held back and stateless: nobody has it
        assert all(each["moves"] == [] for each in compared)

    def test_should_compare_placements_by_process(self, tmp_path: Path) -> None:
        a, b = "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"

        def placed(active: str, standby: str) -> dict[str, object]:
            clients = {active: {"active": ["0_0"], "standby": []}, standby: {"active": [], "standby": ["0_0"]}}
            return {"id": "one", "output": {"probing_rebalance_needed": False, "clients": clients}}

        before = write_lines(tmp_path / "a.jsonl", [placed(a, b)])
        after = write_lines(tmp_path / "b.jsonl", [placed(b, a)])
        ran = assignor("diff", before, after, "--format", "json")
        assert ran.returncode == 1
        assert json.loads(ran.stdout)["moves"] == [
            {"task": "0_0", "active": {"from": [a], "to": [b]}, "standby": {"gone": [b], "new": [a]}}
        ]


class TestDecode:
    SUBSCRIPTION: str = next(iter(smoke(4)["input"]["members"].values()))["subscription"]
    ASSIGNMENT: str = next(iter(smoke(4)["output"]["assignments"].values()))

    def test_should_show_a_subscription_as_text(self) -> None:
        ran = assignor("decode", self.SUBSCRIPTION)
        assert ran.returncode == 0
        assert ran.stdout.splitlines()[0] == "subscription"
        assert "    user_end_point: 127.0.0.1:7001" in ran.stdout.splitlines()

    def test_should_show_an_assignment_as_json_whatever_form_it_comes_in(self, tmp_path: Path) -> None:
        raw = base64.b64decode(self.ASSIGNMENT)
        (tmp_path / "raw").write_bytes(raw)
        (tmp_path / "hex").write_text(f"{raw.hex()}\n")
        forms = [
            assignor("decode", form, "--format", "json", "--as", "assignment").stdout
            for form in (self.ASSIGNMENT, raw.hex(), f"@{tmp_path / 'raw'}", f"@{tmp_path / 'hex'}")
        ]
        forms.append(assignor("decode", "-", "--format", "json", "--as", "assignment", stdin=raw).stdout)
        assert len(set(forms)) == 1
        decoded = json.loads(forms[0])
        assert decoded["kind"] == "assignment"
        assert decoded["user_data"]["active_tasks"]
