"""The summary counts lines as `assignor assign --check` does, and sums the measures of rebalances that have them."""

import io
import random
import re
from dataclasses import asdict
from typing import Any

import pytest
from rich.console import Console

from rebalance_analysis.replay.rebalance_rows import SCHEMA
from rebalance_analysis.replay.summary import ComputeTimes, Counts, Summary
from rebalance_analysis.replay.summary_tables import INPUTS_SHOWN, print_summary

EQUAL: dict[str, Any] = {"compared": True, "equal": True, "bytes_equal": True}
DIFFERENT: dict[str, Any] = {**EQUAL, "equal": False, "bytes_equal": False, "difference": "x is 1, recorded is 2"}
MEASURED: dict[str, Any] = {
    "tasks": 4,
    "active_moved": 3,
    "active_started": 1,
    "standby_moved": 2,
    "warm_ups": 1,
    "skew": 2,
    "active_skew": 1,
    "recorded_active_moved": 5,
    "recorded_standby_moved": 0,
    "recorded_skew": 4,
}


def row(input_name: str = "a.jsonl", line: int | None = 1, **values: Any) -> dict[str, Any]:
    empty: dict[str, Any] = dict.fromkeys(SCHEMA.names)
    empty.update(id="r", compared=False, probing=False, followup=False)
    return {**empty, "input": input_name, "line": line, **values}


def reject(where: str, kind: str, reason: str = "why") -> dict[str, str]:
    return {"where": where, "kind": kind, "reason": reason, "line": ""}


def printed(summary: Summary, width: int = 80, *, wide: bool = False) -> str:
    written = io.StringIO()
    print_summary(summary, Console(file=written, width=width), wide=wide)
    return written.getvalue()


def cells_of(text: str) -> list[list[str]]:
    return [re.split(" {2,}", line.strip()) for line in text.splitlines()]


def filled() -> Summary:
    summary = Summary({})
    summary.add_row(row(**EQUAL, **MEASURED))
    summary.add_row(row(line=2, **DIFFERENT, probing=True, followup=True, tasks=4, skew=0, records_to_restore=7))
    summary.add_row(row("b.jsonl", led_by="Kafka 3.9", error="StreamsException: x"))
    summary.add_row(row("b.jsonl", line=2))
    summary.add_row(row("b.jsonl", line=3, compared=True, equal=True, standby_coverage=0.5, tasks=1, skew=1))
    summary.add_reject(reject("b.jsonl:4", "refused", "later"))
    summary.add_reject(reject("c.jsonl:1", "unusable"))
    return summary


def test_should_count_lines_by_input_and_in_all() -> None:
    summary = filled()
    assert summary.inputs == {
        "a.jsonl": Counts(2, 2, 1, 2, 1, 0, 0, 0, 0),
        "b.jsonl": Counts(4, 1, 1, 0, 0, 1, 1, 1, 0),
        "c.jsonl": Counts(1, 0, 0, 0, 0, 0, 0, 0, 1),
    }
    assert summary.counts == Counts(7, 3, 2, 2, 1, 1, 1, 1, 1)
    assert not summary.counts.all_equal
    assert Counts(total=2, compared=1, equal_after_decoding=1, nothing_recorded=1).all_equal
    assert not Counts(refused=1).all_equal


def test_should_sum_up_the_measures_of_rebalances_that_have_them() -> None:
    assert filled().document()["measures"] == {
        "rounds": 5,
        "errors": 1,
        "probing": 1,
        "followup": 1,
        "measured": 3,
        "active_moved": 3,
        "active_started": 1,
        "standby_moved": 2,
        "warm_ups": 1,
        "records_to_restore": 7,
        "cross_rack_reads": 0,
        "mean_skew": 1.0,
        "mean_active_skew": 1.0,
        "mean_standby_coverage": 0.5,
        "mean_rack_spread": None,
    }
    assert filled().document()["recorded_and_now"] == {
        "rounds": 1,
        "recorded": {"active_moved": 5, "standby_moved": 0, "mean_skew": 4.0},
        "now": {"active_moved": 3, "standby_moved": 2, "mean_skew": 2.0},
    }


def test_should_put_counts_differences_and_reasons_into_one_document() -> None:
    document = filled().document()
    assert {name: document[name] for name in ("total", "all_equal", "differences", "refusals", "changes")} == {
        "total": 7,
        "all_equal": False,
        "differences": ["a.jsonl:2 r: x is 1, recorded is 2"],
        "refusals": {"later": 1},
        "changes": {},
    }
    assert document["inputs"] == [{"input": name, **asdict(counts)} for name, counts in filled().inputs.items()]


def test_should_keep_the_first_differences_only() -> None:
    summary = Summary({})
    for line in range(20):
        summary.add_row(row(line=line, **DIFFERENT))
    assert len(summary.differences) == 10
    assert summary.differences[9] == "a.jsonl:9 r: x is 1, recorded is 2"


def test_should_show_inputs_in_the_order_they_were_named() -> None:
    summary = Summary({})
    for name in ("b", "sqlite:///x.db:group 2", "sqlite:///x.db:group 1"):
        summary.add_row(row(name))
    summary.add_reject(reject("a:1", "refused"))
    summary.sort_inputs(["sqlite:///x.db", "sqlite:///x.db", "a", "b"])
    assert list(summary.inputs) == ["sqlite:///x.db:group 2", "sqlite:///x.db:group 1", "a", "b"]


def test_should_print_counts_and_measures() -> None:
    text = printed(filled())
    cells = cells_of(text)
    assert ["a.jsonl", "2", "2", "1", "1", "0", "0", "0", "0"] in cells
    assert ["b.jsonl", "4", "1", "1", "-", "1", "1", "1", "0"] in cells
    assert ["all", "7", "3", "2", "1", "1", "1", "1", "1"] in cells
    assert ["skew of a rebalance's threads, mean", "1.000"] in cells
    assert ["spread over racks, mean", "-"] in cells
    assert "refused: later (1 lines)" in text
    assert "difference: a.jsonl:2 r: x is 1, recorded is 2" in text
    assert "As recorded" not in text


def test_should_print_recorded_beside_now_when_there_were_changes() -> None:
    summary = filled()
    summary.changes = {"assignor": "X"}
    text = printed(summary)
    cells = cells_of(text)
    assert "As recorded, and now" in text
    assert "1 rebalances that have both" in text
    assert "difference: " not in text
    beside = [line[0] for line in cells].index("As recorded, and now")
    assert cells[beside + 2 : beside + 5] == [
        ["active tasks moved", "5", "3"],
        ["standby tasks moved", "0", "2"],
        ["skew, mean", "4.000", "2.000"],
    ]


def test_should_print_many_inputs_as_one_row() -> None:
    summary = Summary({})
    for number in range(INPUTS_SHOWN + 3):
        summary.add_row(row(f"{number}.jsonl", **EQUAL))
    text = printed(summary)
    cells = cells_of(text)
    assert [f"{INPUTS_SHOWN - 1}.jsonl", "1", "1", "1", "1"] in cells, "no line was anything else"
    assert ["3 other inputs", "3", "3", "3", "3"] in cells


def test_should_tell_compute_times_within_one_percent() -> None:
    times = ComputeTimes()
    assert times.document() == {"median": None, "p95": None, "max": 0.0, "total": 0.0}
    draw = random.Random(7)
    values = [draw.lognormvariate(0, 1) for _ in range(5001)]
    for value in values:
        times.add(value)
    ordered = sorted(values)
    assert times.quantile(0.5) == pytest.approx(ordered[2500], rel=0.011)
    assert times.quantile(0.95) == pytest.approx(ordered[4750], rel=0.011)
    assert times.quantile(1) == pytest.approx(ordered[-1], rel=0.011)
    assert times.document()["max"] == round(ordered[-1], 3)


def test_should_leave_out_of_names_the_directory_that_all_have_and_fit_80_columns() -> None:
    summary = Summary({})
    names = [f"tests/vectors/recordings/{'of-the-orders-of-last-year-' * 2}{name}.jsonl.gz" for name in "ab"]
    for name in names:
        summary.add_row(row(name, **EQUAL))
    text = printed(summary)

    assert text.splitlines()[0].rstrip() == "Rebalances run again, from tests/vectors/recordings/"
    assert ["of-the-orders-of-last-ye…of-last-year-a.jsonl.gz", "1", "1", "1", "1"] in cells_of(text)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert [names[0], "1", "1", "1", "1", "0", "0", "0", "0"] in cells_of(printed(summary, 10_000, wide=True))
