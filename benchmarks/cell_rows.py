"""Measured cells as lines of JSON, so that a run can go on where another one ended."""

import json
from pathlib import Path
from typing import Any


class CellRows:
    """By name of the cell, which a row has as "cell", the newest one. `file`: None keeps them in memory only."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._rows: dict[str, dict[str, Any]] = {}
        if file is not None and file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                self._rows[row["cell"]] = row

    def get(self, cell: str) -> dict[str, Any] | None:
        return self._rows.get(cell)

    def add(self, row: dict[str, Any]) -> None:
        self._rows[row["cell"]] = row
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
