"""What was measured of each cell, as a table, and which cell is worst against its goal."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from benchmarks.handovers import percentile
from benchmarks.latency.measuring import Cell, Run
from benchmarks.turns import load_average


@dataclass(frozen=True, slots=True)
class Latency:
    """In ms. `lost`, `offered`: see `Run`."""

    cell: Cell
    median: float
    high: float
    longest: float
    lost: int
    offered: float

    @property
    def of_goal(self) -> float:
        """The 99th percentile, as a multiple of the goal; without one, 0."""
        return self.high / self.cell.goal_ms if self.cell.goal_ms else 0.0


def latency_of(cell: Cell, run: Run) -> Latency:
    took_ms = [1_000 * each for each in run.took_s] or [float("inf")]
    return Latency(cell, percentile(took_ms, 50), percentile(took_ms, 99), max(took_ms), run.lost, run.offered)


def show(console: Console, results: Sequence[Latency]) -> None:
    table = Table(title=f"ms from send to a reader of the results; {load_average()}")
    headings = (
        "log",
        "guarantee",
        "hops",
        "records/s",
        "kill",
        "median",
        "99th",
        "longest",
        "goal of the 99th",
        "lost",
    )
    for heading in headings:
        table.add_column(heading, justify="left" if heading in headings[:2] else "right")
    for each in results:
        cell = each.cell
        table.add_row(
            cell.log,
            cell.guarantee + (" (README)" if cell.readme else ""),
            str(cell.hops),
            f"{cell.rate:,}" + (f" ({each.offered:,.0f})" if each.offered < 0.95 * cell.rate else ""),
            "yes" if cell.killed else "",
            *(f"{ms:,.0f}" for ms in (each.median, each.high, each.longest)),
            "-" if cell.goal_ms is None else f"{cell.goal_ms:,.0f}" + ("" if each.of_goal <= 1 else " missed"),
            f"{each.lost:,}" if each.lost else "",
        )
    console.print(table)
    console.print(verdict(results))


def verdict(results: Sequence[Latency]) -> str:
    """The cell that is worst against its goal."""
    with_goal = [each for each in results if each.cell.goal_ms is not None]
    if not with_goal:
        return "no cell without a kill was measured, and only those have a goal"
    worst = max(with_goal, key=lambda each: each.of_goal)
    reached = sum(each.of_goal <= 1 for each in with_goal)
    return (
        f"{reached} of {len(with_goal)} goals reached; worst: {title(worst.cell)}: "
        f"99th {worst.high:,.0f} ms, {worst.of_goal:.2f} x its goal of {worst.cell.goal_ms:,.0f} ms"
    )


def markdown(results: Sequence[Latency]) -> str:
    """The tables of docs/results.md: median / 99th, and with a kill / longest, by the rate."""
    parts = []
    for killed in (False, True):
        of_it = [each for each in results if each.cell.killed is killed and not each.cell.readme]
        if of_it:
            parts.append(_markdown(of_it, killed=killed))
    parts += [f"{title(each.cell)}: {_figures(each)} ms" for each in results if each.cell.readme]
    return "\n\n".join((*parts, verdict(results))) + "\n"


def _markdown(results: Sequence[Latency], *, killed: bool) -> str:
    rates = sorted({each.cell.rate for each in results})
    headings = ["log", "guarantee", "repartition topics", *(f"{rate:,}" for rate in rates)]
    headings[3] += " records/s"
    rows: dict[tuple[str, str, int], dict[int, Latency]] = {}
    for each in results:
        rows.setdefault((each.cell.log, each.cell.guarantee, each.cell.hops), {})[each.cell.rate] = each
    lines = [headings if killed else [*headings, "goal of the 99th"]]
    lines.append(["---"] * len(lines[0]))
    for (log, guarantee, hops), by_rate in rows.items():
        figures = [_figures(by_rate[rate]) if rate in by_rate else "" for rate in rates]
        goal_ms = next(iter(by_rate.values())).cell.goal_ms
        lines.append([log, f"`{guarantee}`", str(hops), *figures, *(() if goal_ms is None else (f"{goal_ms:,.0f}",))])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _figures(one: Latency) -> str:
    shown = (one.median, one.high, one.longest) if one.cell.killed else (one.median, one.high)
    return " / ".join(f"{ms:,.0f}" for ms in shown)


def title(cell: Cell) -> str:
    hops = "1 hop" if cell.hops == 1 else f"{cell.hops} hops"
    application = "README's application" if cell.readme else f"{cell.guarantee}, {hops}"
    return f"{cell.log}, {application}, {cell.rate:,} records/s" + (", with a kill" if cell.killed else "")
