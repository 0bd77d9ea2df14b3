"""Measured cells as lines of JSON, so that a run can go on where another one ended."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.jvm_runtime.cells import Cell
from benchmarks.jvm_runtime.measuring import MeasuredCell
from benchmarks.jvm_runtime.programs import RunFigures


class MeasuredCells:
    """By name of the cell, the newest one. `file`: None keeps them in memory only."""

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

    def of(self, cell: Cell, contenders: Sequence[str] = ()) -> MeasuredCell | None:
        """None: not measured yet, or not with all of these."""
        row = self._rows.get(cell.name)
        if row is None or not set(contenders) <= row["runs"].keys():
            return None
        runs = {name: [RunFigures(**run) for run in runs] for name, runs in row["runs"].items()}
        return MeasuredCell(cell, runs, row["warm_up"], int(row["compared"]))

    def all_of(self, cells: Iterable[Cell]) -> list[MeasuredCell]:
        found = (self.of(cell) for cell in cells)
        return [measured for measured in found if measured is not None]
