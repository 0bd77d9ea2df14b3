"""Measured cells as lines of JSON, so that a run can go on where another one ended."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.jvm_leader.cells import Cell
from benchmarks.jvm_leader.contenders import JVM, RunTimes
from benchmarks.jvm_leader.measuring import MeasuredCell


class MeasuredCells:
    """By name of the cell, in the order in which they were measured. `file`: None keeps them in memory only."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._rows: dict[str, dict[str, Any]] = {}
        if file is not None and file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                self._rows[row["cell"]] = row

    def add(self, measured: MeasuredCell) -> None:
        row = {**asdict(measured), "cell": measured.cell.name}
        self._rows[measured.cell.name] = row
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    def of(self, cell: Cell, *, with_jvm: bool) -> MeasuredCell | None:
        """None: not measured yet, or without the JVM."""
        row = self._rows.get(cell.name)
        if row is None or (with_jvm and JVM not in row["cold"]):
            return None
        return MeasuredCell(cell, _times(row["cold"]), _times(row["warm"]), str(row["sent"]), int(row["peak_bytes"]))

    def all_of(self, cells: Iterable[Cell]) -> list[MeasuredCell]:
        found = (self.of(cell, with_jvm=False) for cell in cells)
        return [measured for measured in found if measured is not None]


def _times(by_name: Mapping[str, Any]) -> dict[str, RunTimes]:
    return {name: RunTimes(**times) for name, times in by_name.items()}
