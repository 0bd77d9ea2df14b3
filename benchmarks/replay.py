"""Rebalances per second, over the recordings of real groups and over the vectors that Kafka's own classes made.

The peer is `json.loads` of the same lines: what any program that reads a recording has to spend. The ratio is the CPU
time of the whole replay over that of the peer.
"""

from __future__ import annotations

import gzip
import json
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from assignor.errors import NotBuiltYet
from assignor.recording import document_of_line
from rebalance_analysis.rerun import parse_recorded, run_recorded

VECTORS = Path(__file__).parent.parent / "tests" / "vectors"
QUICK_PATTERNS = ("recordings/*.gz",)
PATTERNS = ("rebalances*.gz", "placements*.gz", *QUICK_PATTERNS)


@dataclass(slots=True)
class Rates:
    """CPU seconds over all rebalances. `parse_s`: text to values; `decide_s`: the leader's work; `compare_s`: comparing
    with the recording; `json_s`: the peer's.
    """

    rebalances: int = 0
    parse_s: float = 0.0
    decide_s: float = 0.0
    compare_s: float = 0.0
    json_s: float = 0.0

    @property
    def total_s(self) -> float:
        return self.parse_s + self.decide_s + self.compare_s

    def add(self, other: Rates) -> None:
        self.rebalances += other.rebalances
        self.parse_s += other.parse_s
        self.decide_s += other.decide_s
        self.compare_s += other.compare_s
        self.json_s += other.json_s


def run(console: Console, *, quick: bool = False) -> None:
    """Print one row per file: rebalances, rebalances/s, CPU milliseconds for each in three parts, and the ratio.

    `quick`: only the recordings of real groups, which are short.
    """
    table = Table(title="Replay of recorded rebalances on one core: text, bytes, decision, bytes, comparison")
    for heading in (
        "file",
        "rebalances",
        "rebalances/s",
        "CPU ms a rebalance",
        "parse",
        "decide",
        "compare",
        "ratio to json",
    ):
        table.add_column(heading, justify="left" if heading == "file" else "right")
    together = Rates()
    for path in sorted(path for pattern in (QUICK_PATTERNS if quick else PATTERNS) for path in VECTORS.glob(pattern)):
        rates = replay(path)
        if rates.rebalances:
            table.add_row(path.name, *_cells(rates))
            together.add(rates)
    table.add_section()
    table.add_row("all", *_cells(together))
    console.print(table)


def replay(path: Path) -> Rates:
    """Run the lines of a file again. Lines that need a later release are left out."""
    rates = Rates()
    with gzip.open(path, "rb") as lines:
        for line in lines:
            try:
                rates.add(_replayed(line))
            except NotBuiltYet:
                continue
    return rates


def _replayed(line: bytes) -> Rates:
    json_began_s = time.process_time()
    json.loads(line)
    began_s = time.process_time()
    recorded = parse_recorded(document_of_line(line))
    parsed_s = time.process_time()
    ran = run_recorded(recorded)
    decided_s = time.process_time()
    ran.comparison()
    compared_s = time.process_time()
    return Rates(1, parsed_s - began_s, decided_s - parsed_s, compared_s - decided_s, began_s - json_began_s)


def _cells(rates: Rates) -> tuple[str, ...]:
    times = (rates.total_s, rates.parse_s, rates.decide_s, rates.compare_s)
    return (
        f"{rates.rebalances:,}",
        f"{rates.rebalances / rates.total_s:,.0f}",
        *(f"{seconds / rates.rebalances * 1000:.2f}" for seconds in times),
        f"{rates.total_s / rates.json_s:,.1f} ×" if rates.json_s else "-",
    )
