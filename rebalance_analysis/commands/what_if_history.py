"""A what-if over a whole history: a row for each rebalance as it is run, and totals at the end."""

from __future__ import annotations

from dataclasses import dataclass, fields

from assignor.names import shortened
from assignor.printable import one_line
from assignor_cli.output import Format, data_text, view_of
from assignor_cli.tables import fitted
from rebalance_analysis.presentation.comparisons import not_placed, seconds_text
from rebalance_analysis.presentation.quantities import UNKNOWN, count_text, counted
from rebalance_analysis.rerun import Rerun
from rebalance_analysis.what_if import ComparedRebalance, Difference, difference_document

_Columns = tuple[tuple[str, int], ...]

_ID_WIDTH = 15
_SHORTEST_ID = 12
_WIDE_ID_WIDTH = 24
_COLUMNS: _Columns = (
    ("moves", 10),
    ("standbys", 10),
    ("warm-ups", 8),
    ("elsewhere", 9),
    ("to restore", 18),
)
_WIDE_COLUMNS: _Columns = (
    ("active moves", 15),
    ("standby moves", 15),
    ("warm-ups", 15),
    ("elsewhere", 9),
    ("to restore", 27),
    ("time", 21),
)


@dataclass(slots=True)
class _Totals:
    """Sums over the rebalances that placed tasks. The records are those of rebalances whose lags are known."""

    active_moved: int = 0
    standby_moved: int = 0
    warm_ups: int = 0
    records_to_restore: int = 0
    rounds_with_unknown_lags: int = 0
    probing_rebalances: int = 0

    def add(self, summary: ComparedRebalance) -> None:
        measures = summary.measures
        if measures is None:
            return
        self.active_moved += measures.active_moved
        self.standby_moved += measures.standby_moved
        self.warm_ups += measures.warm_ups
        self.records_to_restore += measures.records_to_restore or 0
        self.rounds_with_unknown_lags += measures.records_to_restore is None
        self.probing_rebalances += summary.probing_rebalance_needed

    def document(self) -> dict[str, int]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


class History:
    """Prints as it goes: a history may be longer than memory."""

    def __init__(self) -> None:
        self._rebalances = 0
        self._not_placed = 0
        self._active_elsewhere = 0
        self._before = _Totals()
        self._after = _Totals()

    def add(
        self,
        before: Rerun,
        after: Rerun,
        difference: Difference,
        format: Format,
    ) -> None:
        self._rebalances += 1
        problem = not_placed(difference)
        if problem is None:
            self._before.add(difference.before)
            self._after.add(difference.after)
            self._active_elsewhere += difference.active_elsewhere
        else:
            self._not_placed += 1
        if format.is_data:
            print(data_text({"id": before.id, **difference_document(difference)}, format))
            return
        if self._rebalances == 1:
            columns = _WIDE_COLUMNS if format is Format.WIDE else _COLUMNS
            print(_line("as is > what if", [name for name, _ in columns], format))
        if problem is None:
            print(_line(one_line(before.id), _cells(difference), format))
        else:
            which, error = problem
            print(fitted(f"{before.id}  {which}, no task is placed: {error}", view_of(format)))

    def print_totals(self, format: Format) -> None:
        if format.is_data:
            print(data_text({"totals": self._document()}, format))
            return
        if not self._rebalances:
            return
        before, after = self._before, self._after
        cells = [
            _pair(before.active_moved, after.active_moved),
            _pair(before.standby_moved, after.standby_moved),
            _pair(before.warm_ups, after.warm_ups),
            count_text(self._active_elsewhere),
            _pair(before.records_to_restore, after.records_to_restore),
            "",
        ]
        print(_line(counted(self._rebalances, "rebalance"), cells, format))
        for count, what in (
            (self._not_placed, "placed no tasks, as they are or what if, and are not in the sums"),
            (
                after.rounds_with_unknown_lags,
                "have lags that are not known; their records to restore are not in the sum",
            ),
        ):
            if count:
                print(f"{count:,} of them {what}")

    def _document(self) -> dict[str, object]:
        return {
            "rounds": self._rebalances,
            "not_placed": self._not_placed,
            "active_elsewhere": self._active_elsewhere,
            "before": self._before.document(),
            "after": self._after.document(),
        }


def _cells(difference: Difference) -> list[str]:
    before, after = difference.before.measures, difference.after.measures
    assert before is not None
    assert after is not None
    return [
        _pair(before.active_moved, after.active_moved),
        _pair(before.standby_moved, after.standby_moved),
        _pair(before.warm_ups, after.warm_ups),
        count_text(difference.active_elsewhere),
        _pair(before.records_to_restore, after.records_to_restore),
        f"{_seconds(difference.before.restore_s)} -> {_seconds(difference.after.restore_s)}",
    ]


def _line(name: str, cells: list[str], format: Format) -> str:
    """Cells that have no column are left out: the time is the last one, and only shown when wide."""
    columns, first = _COLUMNS, f"{shortened(name, _ID_WIDTH):<{_ID_WIDTH}}"
    if format is Format.WIDE:
        columns, first = _WIDE_COLUMNS, f"{name:<{_WIDE_ID_WIDTH}}"
    figures = "  ".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, columns, strict=False)).rstrip()
    line = f"{first}  {figures}"
    view = view_of(format)
    if view.wide or len(line) <= view.width:
        return line
    # a figure that is longer than its column takes the room of the name
    room = max(view.width - len(figures) - 2, _SHORTEST_ID)
    return fitted(f"{shortened(name, room):<{room}}  {figures}", view)


def _pair(before: int | None, after: int | None) -> str:
    return f"{_count(before)} -> {_count(after)}"


def _count(count: int | None) -> str:
    return UNKNOWN if count is None else count_text(count)


def _seconds(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else seconds_text(seconds)
