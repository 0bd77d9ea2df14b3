"""`python -m benchmarks.group_load --beside DIR`: coordinators in turns, so that other load on the machine affects all
of them alike: of this checkout on SQLite, of another checkout on SQLite, of this checkout on PostgreSQL.

A figure is the median of the turns. A ratio is the median of the ratios of each turn, whose two coordinators ran one
right after the other; above 1 this checkout is slower, or costs more. The lowest and the highest ratio of a turn say
how much of it is chance.
"""

import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.group_load.checkouts import Contender, check
from benchmarks.group_load.figures_of_a_turn import QUICK, Figure, Turn, TurnSize, measure
from benchmarks.steady_calls import Driver
from benchmarks.turns import in_turns, load_average, progress
from tests.coordinator_api.store.postgresql import Postgresql, programs

TURNS, QUICK_TURNS = 5, 1
SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"
WITHOUT_POSTGRESQL = "PostgreSQL is left out: there is no initdb and pg_ctl on this machine that may be run."

Turns = Mapping[str, Sequence[Turn]]


def compare(console: Console, beside: Path | None, turns: int | None, *, quick: bool) -> None:
    """Measure, and print the table; with `beside` the worst ratio as well. Raises NoCheckout.

    `beside`: the directory of the other checkout. `turns`: of each; None for the usual number.
    """
    contenders, other = [Contender(SQLITE)], None
    if beside is not None:
        check(beside := beside.resolve())
        other = f"{SQLITE}, {beside.name}"
        contenders.append(Contender(other, beside))
    count = turns or (QUICK_TURNS if quick else TURNS)
    with ExitStack() as stack:
        bin = programs()
        if bin is None:
            console.print(WITHOUT_POSTGRESQL)
        else:
            contenders.append(Contender(POSTGRESQL, database=stack.enter_context(Postgresql(bin, durable=True))))
        found = _measured(contenders, QUICK if quick else TurnSize(), count, stack.enter_context(Driver()))
    print_comparison(console, found, other)


def _measured(contenders: Sequence[Contender], size: TurnSize, turns: int, driver: Driver) -> Turns:
    with progress() as bar:
        work = bar.add_task("a group under load", total=turns * len(contenders))

        def turn(contender: Contender) -> Turn:
            bar.update(work, description=contender.name)
            found = measure(contender, size, driver)
            bar.advance(work)
            return found

        return in_turns({each.name: partial(turn, each) for each in contenders}, turns)


def print_comparison(console: Console, found: Turns, beside: str | None) -> None:
    """`beside`: the name of the other checkout's coordinator, if there is one."""
    turns = len(found[SQLITE])
    table = Table(
        title="A group under load, in turns; CPU with that of PostgreSQL's server",
        caption=f"{turns} {'turn' if turns == 1 else 'turns'} each; {load_average()}",
    )
    table.add_column("")
    table.add_column("")
    for name in found:
        table.add_column(name, justify="right")
    if beside is not None:
        table.add_column("ratio", justify="right")
        table.add_column("of a turn", justify="right")
    of = ""
    for figure in found[SQLITE][0]:
        medians = [_median(figure, turns_of_it) for turns_of_it in found.values()]
        last = _shown(ratios_of(figure, found[SQLITE], found[beside])) if beside and figure.is_compared else []
        table.add_row("" if figure.of == of else figure.of, figure.what, *medians, *last)
        of = figure.of
    console.print(table)
    if beside is not None:
        console.print(worst(found[SQLITE], found[beside]), highlight=False, soft_wrap=True)


def worst(ours: Sequence[Turn], theirs: Sequence[Turn]) -> str:
    """The line of the figure that is worst beside the other checkout."""
    ratios = {figure: statistics.median(ratios_of(figure, ours, theirs)) for figure in ours[0] if figure.is_compared}
    figure = max(ratios, key=ratios.__getitem__)
    return f"SQLite beside the other checkout: worst ratio {ratios[figure]:.2f} ({figure.of}: {figure.what})"


def ratios_of(figure: Figure, ours: Sequence[Turn], theirs: Sequence[Turn]) -> list[float]:
    """Of each turn; above 1: ours is slower, or costs more."""
    return [
        _times(their[figure], our[figure]) if figure.more_is_better else _times(our[figure], their[figure])
        for our, their in zip(ours, theirs, strict=True)
    ]


def _times(this: float, that: float) -> float:
    """1 for two that are too small to be seen."""
    return this / that if that else 1.0 if not this else float("inf")


def _median(figure: Figure, turns: Sequence[Turn]) -> str:
    value = statistics.median(turn[figure] for turn in turns)
    return f"{value:,.{2 if 0 < value < 10 else 0}f} {figure.unit}".rstrip()


def _shown(ratios: Sequence[float]) -> list[str]:
    return [f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f} – {max(ratios):.2f}"]
