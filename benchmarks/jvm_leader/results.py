"""The cells that were measured, in this run and in those before it."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.cell_rows import CellRows
from benchmarks.jvm_leader.cells import Cell
from benchmarks.jvm_leader.contenders import JVM, RunTimes
from benchmarks.jvm_leader.measuring import MeasuredCell


class MeasuredCells:
    """By name of the cell, in the order in which they were measured. `file`: None keeps them in memory only."""

    def __init__(self, file: Path | None) -> None:
        self._rows = CellRows(file)

    def add(self, measured: MeasuredCell) -> None:
        self._rows.add({**asdict(measured), "cell": measured.cell.name})

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
