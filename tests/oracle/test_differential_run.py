"""A run of fresh cases fails when one differs, and what it keeps shows the difference again. Needs no Java."""

import base64
import json
from collections.abc import Callable, Iterator
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

SEED, RELEASE = 4711, "4.4.0"
LINE = next(line for line in documents(PLACEMENTS[0]) if not line["output"]["probing_rebalance_needed"])
OTHERWISE = {**LINE, "id": "other", "output": {**LINE["output"], "probing_rebalance_needed": True}}


@pytest.fixture(autouse=True)
def failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(differential_run, "FAILURES", tmp_path / "failures")
    return tmp_path / "failures"


def run_of(*lines: Line) -> DifferentialRun:
    fresh = DifferentialRun("placements", {RELEASE: lambda line: line}, seed=SEED)
    for line in lines:
        fresh.compare(fresh.ask(RELEASE, line))
    return fresh


def test_should_fail_with_a_file_that_shows_the_difference_again(failures: Path) -> None:
    fresh = run_of(LINE, OTHERWISE)

    with pytest.raises(AssertionError) as raised:
        fresh.check()

    kept = failures / "placements-4711.jsonl"
    assert str(raised.value).splitlines() == [
        f"1 of 2 placements are not as in Kafka; kept in {kept}; ASSIGNOR_ORACLE_SEED=4711 runs them again",
        "  other of 4.4.0: probing_rebalance_needed is False, recorded is True",
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
        DifferentialRun("placements", {RELEASE: silent}, seed=SEED).ask(RELEASE, LINE)

    kept = [json.loads(line) for line in (failures / "placements-4711.jsonl").read_text().splitlines()]
    assert kept == [{**LINE, "kafka_version": RELEASE}]


def test_should_ask_every_release_the_same_cases_and_follow_each_in_turn() -> None:
    """The second round has what the followed release gave in the first."""
    asked: dict[str, list[Line]] = {"4.3.1": [], "4.4.0": []}

    def kafka(release: str) -> Callable[[Line], Line]:
        def answer(line: Line) -> Line:
            asked[release].append(line)
            return {**line, "output": release}

        return answer

    def history(seed: str, ask: Callable[[Line], Line]) -> Iterator[Line]:
        first = ask({"id": seed})
        yield first
        yield ask({"id": seed, "had": first["output"]})

    fresh = DifferentialRun("groups", {release: kafka(release) for release in asked}, seed=SEED)
    lines = []
    for line in fresh.histories(4, history):
        fresh.figures_of(line).compared += 1
        lines.append((line["id"], line.get("had"), line["output"]))

    rounds = [("4711-0", None), ("4711-0", "4.3.1"), ("4711-1", None), ("4711-1", "4.4.0")]
    for release, asked_of_release in asked.items():
        assert [line[:2] for line in lines if line[2] == release] == rounds
        assert [(line["id"], line.get("had")) for line in asked_of_release] == rounds
    assert fresh.as_text() == (
        "groups: seed 4711; 4.3.1: 4 of 4 equal; 4.4.0: 4 of 4 equal; 4 answered otherwise by another release; 2 groups"
    )
