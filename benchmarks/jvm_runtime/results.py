"""The cells that were measured, in this run and in those before it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.cell_rows import CellRows
from benchmarks.jvm_runtime.cells import Cell
from benchmarks.jvm_runtime.measuring import MeasuredCell
from benchmarks.jvm_runtime.programs import RunFigures
from benchmarks.jvm_runtime.spark_row import CountOnSpark

_ON_SPARK = "keyed count on Spark"


class MeasuredCells:
    """By name of the cell, the newest one. `file`: None keeps them in memory only."""

    def __init__(self, file: Path | None) -> None:
        self._rows = CellRows(file)

    def add(self, measured: MeasuredCell) -> None:
        self._rows.add({**asdict(measured), "cell": measured.cell.name})

    def add_spark(self, found: Mapping[str, CountOnSpark]) -> None:
        self._rows.add({"cell": _ON_SPARK, "ways": {way: asdict(each) for way, each in found.items()}})

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

    def spark(self) -> dict[str, CountOnSpark]:
        """By way; empty when it was not measured."""
        row = self._rows.get(_ON_SPARK) or {"ways": {}}
        return {way: CountOnSpark(**each) for way, each in row["ways"].items()}
