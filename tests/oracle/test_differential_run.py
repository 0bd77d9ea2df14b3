"""A run of fresh cases fails when one differs, and what it keeps shows the difference again. Needs no Java."""

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest

from assignor.protocol.assignment_info import decode_assignment_info, encode_assignment_info
from assignor.protocol.consumer_protocol import decode_assignment, encode_assignment
from tests.oracle import differential_run
from tests.oracle.differential_run import DifferentialRun
from tests.oracle.oracle import Line, OracleFault
from tests.program import assignor
from tests.recorded import PLACEMENTS, REBALANCES, documents

SEED = 4711
LINE = next(line for line in documents(PLACEMENTS[0]) if not line["output"]["probing_rebalance_needed"])
OTHERWISE = {**LINE, "id": "other", "output": {**LINE["output"], "probing_rebalance_needed": True}}


@pytest.fixture(autouse=True)
def failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(differential_run, "FAILURES", tmp_path / "failures")
    return tmp_path / "failures"


def run_of(*lines: Line) -> DifferentialRun:
    fresh = DifferentialRun("placements", lambda line: line, seed=SEED)
    for line in lines:
        fresh.compare(fresh.ask(line))
    return fresh


def test_should_fail_with_a_file_that_shows_the_difference_again(failures: Path) -> None:
    fresh = run_of(LINE, OTHERWISE)

    with pytest.raises(AssertionError) as raised:
        fresh.check()

    kept = failures / "placements-4711.jsonl"
    assert str(raised.value).splitlines() == [
        f"1 of 2 placements are not as in Kafka; kept in {kept}; ASSIGNOR_ORACLE_SEED=4711 runs them again",
        "  other: probing_rebalance_needed is False, recorded is True",
    ]
    replayed = assignor("assign", "--check", str(kept))
    assert replayed.returncode == 1
    told = " ".join(replayed.stdout.split())  # a line may be wrapped
    assert f"difference: {kept}:1 other: probing_rebalance_needed is False, recorded is True" in told


def test_should_fail_when_only_the_bytes_differ(failures: Path) -> None:
    line = next(each for each in documents(REBALANCES) if _reordered(each) != each["output"]["assignments"])
    otherwise = {**line, "output": {**line["output"], "assignments": _reordered(line)}}

    run_of(line).check()
    with pytest.raises(AssertionError, match="equal only after decoding"):
        run_of(otherwise).check()


def _reordered(line: Line) -> dict[str, str]:
    """The same assignments, with the standby tasks the other way round."""
    reordered = {}
    for member, raw in line["output"]["assignments"].items():
        assignment = decode_assignment(base64.b64decode(raw))
        info = decode_assignment_info(assignment.user_data or b"")
        standby = dict(reversed(list(info.standby_tasks.items())))
        user_data = encode_assignment_info(replace(info, standby_tasks=standby))
        reordered[member] = base64.b64encode(encode_assignment(replace(assignment, user_data=user_data))).decode()
    return reordered


def test_should_keep_the_line_that_got_no_answer(failures: Path) -> None:
    def silent(line: Line) -> Line:
        raise OracleFault("no answer within 60 s")

    with pytest.raises(OracleFault, match=r"^seed 4711, kept in .*placements-4711\.jsonl: no answer within 60 s$"):
        DifferentialRun("placements", silent, seed=SEED).ask(LINE)

    assert [json.loads(line) for line in (failures / "placements-4711.jsonl").read_text().splitlines()] == [LINE]
