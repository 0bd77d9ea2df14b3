"""One line in, one row or one reject out: equality with the recording, the measures, and the reasons for rejects."""

import copy
import gzip
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from assignor.recording import parse_recorded_placement
from rebalance_analysis.measures import measure, recorded_placement
from rebalance_analysis.reading.own_assignors import OwnAssignors
from rebalance_analysis.reading.sources import RawLine
from rebalance_analysis.recordings.chunk import ChunkKind, RecordingChunk
from rebalance_analysis.replay.rebalance_rows import SCHEMA
from rebalance_analysis.replay.replay_work import NO_CHANGES, ReplayWork, place
from rebalance_analysis.rerun import RerunPlacement, RerunRebalance, run
from rebalance_analysis.what_if.changes import AddedInstances, Changes
from spark_engine.batch.work import Reject
from tests.known import known
from tests.program import smoke
from tests.recorded import document, documents
from tests.spark_jobs.recordings.recordings_as_files import as_bytes

MEASURES = ("clients", "threads", "tasks", "stateful_tasks", "active_moved", "active_started", "standby_moved")
OTHER_MEASURES = ("warm_ups", "records_to_restore", "thread_loads", "skew", "active_skew", "standby_coverage")
ALL_MEASURES = (*MEASURES, *OTHER_MEASURES, "rack_spread", "cross_rack_reads")


def ran(line: dict[str, Any], changes: Changes = NO_CHANGES, where: str = "in.jsonl:7") -> dict[str, Any] | Reject:
    return ReplayWork(OwnAssignors(os.getcwd()), changes).line(RawLine(where, as_bytes(line) + b"\n"))


def row(line: dict[str, Any], changes: Changes = NO_CHANGES) -> dict[str, Any]:
    found = ran(line, changes)
    assert isinstance(found, dict), found
    return found


def reject(line: dict[str, Any], changes: Changes = NO_CHANGES) -> Reject:
    found = ran(line, changes)
    assert isinstance(found, Reject)
    return found


def test_should_give_a_row_with_all_that_a_rebalance_did() -> None:
    line = smoke(3)
    found = row(line)
    ran_again = run(line)
    assert isinstance(ran_again, RerunRebalance)
    measures = asdict(measure(known(ran_again.result.problem), known(ran_again.result.placement)))
    assert found.pop("compute_ms") > 0
    assert found == {
        "input": "in.jsonl",
        "line": 7,
        "id": "smoke.3",
        "format": "rebalance/1",
        "group_id": line["group_id"],
        "generation_id": 3,
        "now_ms": line["now_ms"],
        "assignor": "HighAvailabilityTaskAssignor",
        "led_by": None,
        "compared": True,
        "equal": True,
        "bytes_equal": True,
        "difference": None,
        "error": None,
        "probing": line["output"]["probing_rebalance_at_ms"] is not None,
        "probing_at_ms": line["output"]["probing_rebalance_at_ms"],
        "followup": line["output"]["followup_rebalance"],
        **measures,
        "recorded_active_moved": measures["active_moved"],
        "recorded_standby_moved": measures["standby_moved"],
        "recorded_skew": measures["skew"],
    }
    assert measures.keys() == set(ALL_MEASURES)


def test_should_give_a_row_of_a_placement_without_group_and_bytes() -> None:
    line = documents("placements.jsonl.gz")[5]
    found = row(line)
    assert [found.get(name) for name in ("group_id", "generation_id", "now_ms", "bytes_equal", "probing_at_ms")] == [
        None
    ] * 5
    assert (found["format"], found["compared"], found["equal"]) == ("placement/1", True, True)
    assert found["probing"] == line["output"]["probing_rebalance_needed"]
    problem = parse_recorded_placement(line).problem
    ran_again = run(line)
    assert isinstance(ran_again, RerunPlacement)
    assert {name: found[name] for name in ALL_MEASURES} == asdict(measure(problem, ran_again.placement))


def test_should_say_the_first_difference_and_measure_what_was_recorded_when_a_rebalance_differs() -> None:
    line = smoke(3)
    members = list(line["output"]["assignments"])
    first, second = (line["output"]["assignments"][member] for member in members[:2])
    line["output"]["assignments"].update({members[0]: second, members[1]: first})
    found = row(line)
    assert (found["compared"], found["equal"], found["bytes_equal"]) == (True, False, False)
    assert found["difference"].startswith(f"member {members[0]}: ")
    ran_again = run(line)
    assert isinstance(ran_again, RerunRebalance)
    assert ran_again.result.problem is not None
    placement = recorded_placement(ran_again.result.problem, known(ran_again.recorded.output).assignments)
    expected = measure(ran_again.result.problem, known(placement))
    names = ("active_moved", "standby_moved", "skew")
    assert [found[f"recorded_{name}"] for name in names] == [getattr(expected, name) for name in names]
    assert found["recorded_skew"] > found["skew"]


def test_should_measure_the_recorded_placement_of_a_placement_that_differs() -> None:
    line = documents("placements.jsonl.gz")[5]
    clients = line["output"]["clients"]
    low, high = sorted(clients)[:2]
    clients[low]["active"], clients[high]["active"] = [*clients[low]["active"], *clients[high]["active"]], []
    found = row(line)
    assert found["equal"] is False
    recorded = parse_recorded_placement(line)
    expected = measure(recorded.problem, known(recorded.output))
    assert (found["recorded_active_moved"], found["recorded_skew"]) == (expected.active_moved, expected.skew)


def test_should_not_compare_when_nothing_was_recorded_or_another_leader_led() -> None:
    line = smoke(3)
    del line["output"]
    found = row(line)
    assert [found.get(name) for name in ("compared", "equal", "bytes_equal", "led_by", "recorded_skew")] == [
        False,
        None,
        None,
        None,
        None,
    ]
    assert found["tasks"] == row(smoke(3))["tasks"]
    led = document("recordings/bridge1.jsonl.gz", "bridge1.2")
    found = row(led)
    assert (found["compared"], found["equal"], found["led_by"]) == (False, None, led["led_by"])


def test_should_have_no_measures_when_a_rebalance_ended_in_an_error() -> None:
    failed = next(line for line in documents("rebalances.jsonl.gz") if line["output"]["error"] is not None)
    found = row(failed)
    assert found["error"].partition(":")[0] == failed["output"]["error"].partition(":")[0]
    assert [found.get(name) for name in ALL_MEASURES] == [None] * len(ALL_MEASURES)


def test_should_name_the_code_of_an_error_that_members_are_told() -> None:
    line = smoke(1)
    line["input"]["cluster"]["topics"] = {}
    assert row({**line, "output": None})["error"] == "INCOMPLETE_SOURCE_TOPIC_METADATA"


def test_should_have_no_measures_when_a_line_claims_more_threads_than_there_can_be() -> None:
    line = documents("placements.jsonl.gz")[5]
    client = next(iter(line["clients"].values()))
    client.update(capacity=2_000_000, consumers=[])
    found = row(line)
    assert found.get("thread_loads") is None
    assert found["equal"] in (True, False)


def test_should_keep_sums_that_are_more_than_a_long() -> None:
    for line in documents("fresh_rebalances.jsonl.gz"):
        found = row(line)
        assert (found.get("records_to_restore") or 0) < 2**63


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "is not a line of JSON: Expecting property name enclosed in double quotes: line 2 column 1 (char 3)"),
        (b"[]", "must be a JSON object"),
        (b'{"format":"x"}', "format: must be rebalance/1, placement/1 or streams_group/1, not 'x'"),
        (b'{"format":"rebalance/1"}', "id: is missing"),
        (b"\xff", "is not UTF-8 text: invalid start byte at byte 0"),
    ],
)
def test_should_give_the_reason_and_the_line_when_it_is_unusable(content: bytes, reason: str) -> None:
    found = ReplayWork(OwnAssignors("/")).line(RawLine("x:1", content + b"\r\n"))
    assert found == Reject("x:1", "unusable", reason, content.decode(errors="backslashreplace"))


def test_should_reject_one_line_when_this_program_fails_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("rebalance_analysis.replay.replay_work.run_recorded", fail)
    found = reject(smoke(1))
    assert (found.kind, found.reason) == ("unusable", "a fault of this program: ZeroDivisionError: by zero")


def test_should_compare_with_the_recording_when_there_are_changes() -> None:
    line = smoke(3)
    found = row(line, Changes(add_instances=(AddedInstances(2, 3),)))
    as_recorded = row(line)
    assert (found["clients"], found["threads"]) == (as_recorded["clients"] + 2, as_recorded["threads"] + 6)
    assert (found["compared"], found["equal"]) == (True, False)
    assert "assigned, but not in the recording" in found["difference"] or found["difference"].startswith("member ")
    for name in ("recorded_active_moved", "recorded_standby_moved", "recorded_skew"):
        assert found[name] == as_recorded[name]
    assert (found["id"], found["generation_id"]) == ("smoke.3", 3)


def test_should_say_which_assignor_placed_when_it_was_changed() -> None:
    changes = Changes(assignor="FallbackPriorTaskAssignor")
    assert row(smoke(3), changes)["assignor"] == "FallbackPriorTaskAssignor"
    assert row(documents("placements.jsonl.gz")[5], changes)["assignor"] == "FallbackPriorTaskAssignor"


def test_should_reject_a_rebalance_that_cannot_be_changed_so() -> None:
    found = reject(smoke(3), Changes(remove=("nobody",)))
    assert found.kind == "unusable"
    assert "nobody" in found.reason


def test_should_load_a_users_own_assignor_from_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    (tmp_path / "own_in_replay.py").write_text(
        "from assignor.task_assignors.high_availability import HighAvailabilityTaskAssignor\n"
        "class Mine(HighAvailabilityTaskAssignor):\n    name = 'Mine'\n"
    )
    line = copy.deepcopy(smoke(3))
    line["input"]["assignor"] = "own_in_replay:Mine"
    missing = ReplayWork(OwnAssignors("/nowhere")).line(RawLine("x:1", as_bytes(line)))
    assert isinstance(missing, Reject)
    assert "own_in_replay" in missing.reason
    found = ReplayWork(OwnAssignors(str(tmp_path))).line(RawLine("x:1", as_bytes(line)))
    assert isinstance(found, dict)
    assert (found["assignor"], found["equal"]) == ("own_in_replay:Mine", True)


def test_should_give_rows_and_rejects_of_chunks_in_order(tmp_path: Path) -> None:
    lines = [as_bytes(smoke(1)), b"{", as_bytes(smoke(2)), as_bytes(smoke(3))]
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n".join(lines)))
    chunks = [
        RecordingChunk(0, "x.jsonl.gz", str(path), ChunkKind.GZIP, 0, 1, 3),
        RecordingChunk(1, "x.jsonl.gz", str(path), ChunkKind.GZIP, 3, 4, 1, "is damaged", "x.jsonl.gz:5"),
    ]
    outputs = list(ReplayWork(OwnAssignors("/")).run(iter(chunks)))
    assert [output.rows.schema for output in outputs] == [SCHEMA, SCHEMA]
    assert [output.rows.select(["input", "line", "id"]).to_pylist() for output in outputs] == [
        [
            {"input": "x.jsonl.gz", "line": 1, "id": "smoke.1"},
            {"input": "x.jsonl.gz", "line": 3, "id": "smoke.2"},
        ],
        [{"input": "x.jsonl.gz", "line": 4, "id": "smoke.3"}],
    ]
    assert [[(each.where, each.kind, each.line) for each in output.rejects] for output in outputs] == [
        [("x.jsonl.gz:2", "unusable", "{")],
        [("x.jsonl.gz:5", "unusable", None)],
    ]


def test_should_tell_input_and_line_apart() -> None:
    assert place("a/b.jsonl:12") == ("a/b.jsonl", 12)
    assert place("sqlite:///c.db:group:3") == ("sqlite:///c.db:group", 3)
    assert place("C:x") == ("C:x", None)
    assert place("") == ("", None)
    assert place(f"x:{'9' * 19}") == (f"x:{'9' * 19}", None)
