"""Rounds per second over the recordings of real groups and over the vectors that Kafka's own classes made."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from assignor.errors import NotBuiltYet
from assignor.pipeline import assign
from assignor.recording import parse_placement, parse_rebalance
from assignor.task_assignors.registry import task_assignor_named

VECTORS = Path(__file__).parent.parent / "tests" / "vectors"


def run(console: Console, *, quick: bool = False) -> None:
    """Print one row per file: rounds, rounds/s, CPU milliseconds a round. Parsing the JSON is not counted.

    `quick`: the recordings of real groups only, which are short.
    """
    table = Table(title="Replay: the decisions of one round, text already parsed")
    for heading in ("file", "rounds", "rounds/s", "CPU ms a round"):
        table.add_column(heading, justify="left" if heading == "file" else "right")
    patterns = ("recordings/*.gz",) if quick else ("rebalances*.gz", "placements*.gz", "recordings/*.gz")
    for path in sorted(path for pattern in patterns for path in VECTORS.glob(pattern)):
        rounds, cpu_s = replay(path)
        if rounds:
            table.add_row(path.name, f"{rounds:,}", f"{rounds / cpu_s:,.0f}", f"{cpu_s / rounds * 1000:.2f}")
    console.print(table)


def replay(path: Path) -> tuple[int, float]:
    """Rounds run and CPU seconds spent; lines that need a later step are left out."""
    rounds, cpu_s = 0, 0.0
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            document = json.loads(line)
            try:
                cpu_s += _rebalance(document) if document["format"] == "rebalance/1" else _placement(document)
            except NotBuiltYet:
                continue
            rounds += 1
    return rounds, cpu_s


def _rebalance(document: dict[str, object]) -> float:
    snapshot, now_ms = parse_rebalance(document), int(str(document["now_ms"]))
    start = time.process_time()
    assign(snapshot, now_ms)
    return time.process_time() - start


def _placement(document: dict[str, object]) -> float:
    problem = parse_placement(document)
    assignor = task_assignor_named(str(document["assignor"]))
    start = time.process_time()
    assignor.assign(problem, [])
    return time.process_time() - start
