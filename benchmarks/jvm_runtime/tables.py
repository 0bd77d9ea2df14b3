"""What was measured, as tables for people: on a console and as Markdown."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.jvm_leader.tables import Page
from benchmarks.jvm_runtime.cells import MAP, PROCESSOR, Cell
from benchmarks.jvm_runtime.contenders import EMBEDDED, JVM, KAFKA, LABELS
from benchmarks.jvm_runtime.measuring import MeasuredCell

OURS = (EMBEDDED, KAFKA)


class Ratio(NamedTuple):
    """CPU a record of one of ours over that of Kafka Streams."""

    value: float
    cell: Cell
    contender: str

    def __str__(self) -> str:
        return f"{self.cell.name}; {LABELS[self.contender]}"


def ratios(measured: Sequence[MeasuredCell]) -> Iterator[Ratio]:
    """Of the cells that have a goal beside Kafka Streams, which the processor has not."""
    for each in measured:
        if JVM in each.runs and each.cell.application != PROCESSOR:
            for contender in OURS:
                if contender in each.runs:
                    yield Ratio(ratio(each, contender), each.cell, contender)


def ratio(measured: MeasuredCell, contender: str) -> float:
    return measured.typical(contender).cpu_us / measured.typical(JVM).cpu_us


def pages(measured: Sequence[MeasuredCell]) -> list[Page]:
    return [_cpu_page(measured), _rate_page(measured)]


def _cpu_page(measured: Sequence[MeasuredCell]) -> Page:
    headings = ["application", "keys", "cache"]
    shown = [name for name in LABELS if any(name in each.runs for each in measured)]
    for contender in shown:
        headings += [LABELS[contender], "thread"]
    headings += ["embedded / KS", "Kafka / KS", "equal results"]
    return Page(
        "CPU µs a record: of the process, and of its stream thread alone",
        headings,
        [_cpu(each, shown) for each in measured],
    )


def _cpu(each: MeasuredCell, shown: Sequence[str]) -> list[str]:
    row = _words(each.cell)
    for contender in shown:
        if contender in each.runs:
            figures = each.typical(contender)
            row += [f"{figures.cpu_us:.2f}", f"{figures.threads_us:.2f}"]
        else:
            row += ["-", "-"]
    for contender in OURS:
        has_both = JVM in each.runs and contender in each.runs
        row.append(f"{ratio(each, contender):.2f}" if has_both else "-")
    return [*row, f"{each.compared:,}" if sum(map(len, each.runs.values())) > 1 else "-"]


def _rate_page(measured: Sequence[MeasuredCell]) -> Page:
    names = [name for name in LABELS if any(name in each.runs for each in measured)]
    rows = [
        [
            *_words(each.cell),
            *(f"{each.records_a_second(name):,.0f}" if name in each.runs else "-" for name in names),
            *(_spread(each, name) for name in names),
        ]
        for each in measured
    ]
    headings = ["application", "keys", "cache", *(LABELS[name] for name in names), *(f"runs: {name}" for name in names)]
    return Page("records/s until the last commit; the least and the most CPU µs a record of all runs", headings, rows)


def _spread(each: MeasuredCell, contender: str) -> str:
    if contender not in each.runs:
        return "-"
    found = [run.cpu_us for run in each.runs[contender]]
    return f"{min(found):.1f}-{max(found):.1f}"


def _words(cell: Cell) -> list[str]:
    return [cell.title, f"{cell.keys:,}", "none" if cell.application == MAP else cell.cache]
