"""What a run has measured: one JSON object a line in a file, and the table that is printed from them.

Every figure of the goals' table has a key here, with its goal. A row that is run alone adds its figures to the file, so
a ratio finds the other side of it there.
"""

import json
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.group_load.pace import FULL, QUICK, Pace

DEFAULT_FILE = Path("build") / "group-load.jsonl"


@dataclass(frozen=True, slots=True)
class Figure:
    """`row`: which row measured it. `goal`: at most this; None when it only explains. `note`: how it came about."""

    row: str
    what: str
    value: float
    unit: str
    goal: float | None = None
    note: str = ""

    @property
    def reached(self) -> bool | None:
        return None if self.goal is None else self.value <= self.goal

    def shown(self) -> str:
        digits = 0 if self.unit in ("", "ms") and self.value >= 10 else 2
        return f"{self.value:,.{digits}f} {self.unit}".strip()


@dataclass(slots=True)
class Results:
    """Of one run. `file`: where the figures are appended. `quick`: small sizes, whose figures are no results."""

    file: Path
    quick: bool
    run: str = field(default_factory=lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    figures: list[Figure] = field(default_factory=list)

    @property
    def pace(self) -> Pace:
        return QUICK if self.quick else FULL

    def add(self, row: str, what: str, value: float, unit: str, goal: float | None = None, note: str = "") -> None:
        """Keep a figure, in the file as well."""
        figure = Figure(row, what, round(value, 4), unit, goal, note)
        self.figures.append(figure)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        load = round(os.getloadavg()[0], 2)
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"run": self.run, "quick": self.quick, "load": load, **asdict(figure)}) + "\n")

    def last(self, row: str, what: str) -> float | None:
        """The newest value of a figure, of this run or of an earlier one of the same size."""
        if not self.file.exists():
            return None
        found = None
        for line in self.file.read_text(encoding="utf-8").splitlines():
            each = json.loads(line)
            if (each["row"], each["what"], each["quick"]) == (row, what, self.quick):
                found = float(each["value"])
        return found


def print_table(console: Console, figures: Sequence[Figure], title: str) -> None:
    table = Table(title=title)
    for heading in ("row", "what", "measured", "goal", "", "note"):
        table.add_column(heading, justify="right" if heading in ("measured", "goal") else "left")
    row = None
    for figure in figures:
        goal = "" if figure.goal is None else f"{figure.goal:,g} {figure.unit}".strip()
        verdict = {None: "", True: "reached", False: "MISSED"}[figure.reached]
        table.add_row("" if figure.row == row else figure.row, figure.what, figure.shown(), goal, verdict, figure.note)
        row = figure.row
    console.print(table)


def newest(file: Path, *, quick: bool = False) -> list[Figure]:
    """The newest value of each figure in a file, in the order in which they were first measured."""
    kept: dict[tuple[str, str], Figure] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        each = json.loads(line)
        if each["quick"] == quick:
            fields = {name: each[name] for name in ("row", "what", "value", "unit", "goal", "note")}
            kept[each["row"], each["what"]] = Figure(**fields)
    return list(kept.values())


def missed(figures: Iterable[Figure]) -> list[Figure]:
    return [figure for figure in figures if figure.reached is False]
