"""What was measured, as tables for people: on a console and as Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich import box
from rich.table import Table

from benchmarks.jvm_leader.cells import SECOND, Cell, shape_name
from benchmarks.jvm_leader.contenders import JVM, OURS, RunTimes
from benchmarks.jvm_leader.growth import exponent
from benchmarks.jvm_leader.measuring import MeasuredCell

LARGEST = "50000x500"
BYTES, ASSIGNOR = "bytes to bytes", "task assignor alone"
MEASURES = (BYTES, ASSIGNOR)
_HEADINGS = (
    ("assignor", "racks", "shape", "rebalance"),
    ("cold ours", "cold JVM", "ratio"),
    ("warm ours", "warm JVM", "ratio"),
    ("wall cold", "wall warm"),
)
_WORDS = sum(map(len, _HEADINGS[:1]))


@dataclass(frozen=True, slots=True)
class Page:
    """One table with a title; the first `words` columns hold words, the others numbers."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1

    def for_console(self) -> Table:
        table = Table(title=self.title, box=box.SQUARE, padding=(0, 0))
        for number, heading in enumerate(self.headings):
            table.add_column(heading, justify="left" if number < self.words else "right", no_wrap=number < self.words)
        for row in self.rows:
            table.add_row(*row)
        return table

    def as_markdown(self) -> str:
        rule = ["---" if number < self.words else "---:" for number in range(len(self.headings))]
        lines = [self.headings, rule, *self.rows]
        return f"{self.title}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


class Ratio(NamedTuple):
    """Ours over the JVM's, of the leader thread's CPU."""

    value: float
    cell: Cell
    measure: str
    when: str

    def __str__(self) -> str:
        return f"{self.cell.name}; {self.measure}, {self.when}"


def pages(measured: Sequence[MeasuredCell]) -> list[Page]:
    """The cells for each measure, then the largest shape's memory, if it was measured."""
    found = [_cells(measure, measured) for measure in MEASURES]
    memory = _memory(measured)
    return [*found, memory] if memory.rows else found


def ratios(measured: Sequence[MeasuredCell]) -> Iterator[Ratio]:
    for each in measured:
        for when, times in (("cold", each.cold), ("warm", each.warm)):
            if JVM in times:
                for measure in MEASURES:
                    ratio = cpu(times[OURS], measure) / cpu(times[JVM], measure)
                    yield Ratio(ratio, each.cell, measure, when)


def cpu(times: RunTimes, measure: str) -> float:
    return times.cpu if measure == BYTES else times.placing_cpu


def _wall(times: RunTimes, measure: str) -> float:
    return times.wall if measure == BYTES else times.placing_wall


def codec_page(rates: Mapping[str, Mapping[str, float]]) -> Page:
    rows = [
        (
            operation.replace("-", " "),
            f"{by_name[OURS]:,.0f}",
            f"{by_name[JVM]:,.0f}" if JVM in by_name else "-",
            f"{by_name[JVM] / by_name[OURS]:.2f}" if JVM in by_name else "-",
        )
        for operation, by_name in rates.items()
    ]
    return Page("codec, warm: MB for each second of CPU", ("messages", "ours", "JVM", "JVM / ours"), rows)


def _cells(measure: str, measured: Sequence[MeasuredCell]) -> Page:
    headings = [heading for group in _HEADINGS for heading in group]
    if measure == BYTES:
        headings += ["JVM process", "sent"]
    rows = [_row(measure, each) for each in measured]
    return Page(f"{measure}: CPU ms of the leader's thread, wall ms as ours/JVM", headings, rows, _WORDS)


def _row(measure: str, each: MeasuredCell) -> list[str]:
    row = [
        each.cell.placing.assignor.removesuffix("TaskAssignor"),
        each.cell.placing.strategy,
        shape_name(each.cell.shape),
        each.cell.rebalance,
    ]
    for times in (each.cold, each.warm):
        row.append(_shown(cpu(times[OURS], measure), times[OURS]))
        if JVM in times:
            row.append(_shown(cpu(times[JVM], measure), times[JVM]))
            row.append(f"{cpu(times[OURS], measure) / cpu(times[JVM], measure):.2f}")
        else:
            row += ["-", "-"]
    for times in (each.cold, each.warm):
        walls = [_shown(_wall(times[name], measure), times[name]) for name in (OURS, JVM) if name in times]
        row.append("/".join(walls))
    if measure == BYTES:
        row.append(_shown(each.warm[JVM].process_cpu, each.warm[JVM]) if JVM in each.warm else "-")
        row.append(each.sent)
    return row


def _shown(milliseconds: float, times: RunTimes) -> str:
    digits = 0 if milliseconds >= 100 else 1
    return f"{'>' if times.over else ''}{milliseconds:,.{digits}f}"


def growth_page(grown: Mapping[tuple[str, str], Sequence[tuple[int, RunTimes]]]) -> Page:
    """`grown`: by assignor and rebalance."""
    rows = []
    for (assignor, rebalance), sized in grown.items():
        exponents = [exponent([(tasks, cpu(times, measure)) for tasks, times in sized]) for measure in MEASURES]
        shown = " ".join(_shown(times.cpu, times) for _, times in sized)
        rows.append([assignor, rebalance, *(f"{each:.2f}" for each in exponents), shown])
    headings = ("assignor", "rebalance", *MEASURES, "CPU ms of each shape, bytes to bytes")
    return Page("our CPU grows with (tasks + clients + copies) to the power of; shapes in turns", headings, rows, 2)


def _memory(measured: Sequence[MeasuredCell]) -> Page:
    rows = [
        (each.cell.placing.assignor, each.cell.placing.strategy, f"{each.peak_bytes / 1e6:,.0f}")
        for each in measured
        if shape_name(each.cell.shape) == LARGEST and each.cell.rebalance == SECOND and each.peak_bytes
    ]
    return Page(f"our peak memory at {LARGEST}, {SECOND} rebalance", ("assignor", "racks", "MB"), rows, 2)
