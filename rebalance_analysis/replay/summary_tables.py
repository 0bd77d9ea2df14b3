"""Prints the summary of a replay as tables."""

import itertools
from collections.abc import Iterable, Iterator, Mapping

from rich.console import Console, Group
from rich.text import Text

from assignor.names.printable import one_line
from assignor.names.short_names import shortened
from rebalance_analysis.replay.summary import Counts, Summary
from spark_engine.batch.terminal import GAP, plain_table, titled

INPUTS_SHOWN = 30
_TO_THE_BYTE = "to the\nbyte"
_ALWAYS = frozenset({"total", "compared", "equal_after_decoding", "equal_to_the_byte"})
_SHORTEST_INPUT = 8
_SUMS = {
    "rounds": "rebalances",
    "errors": "ended with an error",
    "probing": "with a probing rebalance to come",
    "followup": "with a follow-up rebalance",
    "active_moved": "active tasks moved",
    "active_started": "active tasks that had no owner before",
    "standby_moved": "standby tasks moved",
    "warm_ups": "warm-ups",
    "records_to_restore": "records to restore, where lags are known",
    "cross_rack_reads": "partitions read across racks, where these are known",
    "mean_skew": "skew of a rebalance's threads, mean",
    "mean_active_skew": "skew of active tasks alone, mean",
    "mean_standby_coverage": "share of the wanted standbys that exist, mean",
    "mean_rack_spread": "spread over racks, mean",
}
_BESIDE = {"active_moved": "active tasks moved", "standby_moved": "standby tasks moved", "mean_skew": "skew, mean"}


def print_summary(summary: Summary, console: Console, *, wide: bool = False) -> None:
    """Prints the counts of each input, the measures, the refusals and the differences. `wide`: True to print columns in
    which all counts are 0, too.
    """
    console.print(_counts_table(summary, console.width, wide))
    console.print()
    console.print(_measures_table(summary))
    if summary.changes:
        console.print()
        console.print(_beside_table(summary))
    # with changes, results usually differ from the recordings
    differences = [] if summary.changes else summary.differences
    for reason, lines in summary.refusals.items():
        console.print(Text(one_line(f"refused: {reason} ({lines:,} lines)")), soft_wrap=True)
    for text in differences:
        # soft_wrap: no line break is inserted, so users can copy the path from the line
        console.print(Text(one_line(f"difference: {text}")), soft_wrap=True)


def _counts_table(summary: Summary, width: int, wide: bool) -> Group:
    counts = summary.counts
    columns = {
        "lines": "total",
        "compared": "compared",
        "equal": "equal_after_decoding",
        _TO_THE_BYTE: "equal_to_the_byte",
        "not\ncompared": "not_compared",
        "nothing\nrecorded": "nothing_recorded",
        "refused": "refused",
        "unusable": "unusable",
    }
    columns = {name: each for name, each in columns.items() if wide or each in _ALWAYS or getattr(counts, each)}
    where = "" if wide or len(summary.inputs) < 2 else _common_directory(summary.inputs)
    table = plain_table()
    table.add_column("input", overflow="fold")
    for name in columns:
        table.add_column(name, justify="right", overflow="fold")
    # no other number of a column is wider than the total
    of_all = _cells(counts, columns)
    figures = sum(max(len(cell), *map(len, name.split("\n"))) + GAP for name, cell in zip(columns, of_all, strict=True))
    room = max(width - figures, _SHORTEST_INPUT)
    for name, of_input in _shown(summary.inputs):
        table.add_row(Text(shortened(name.removeprefix(where), room)), *_cells(of_input, columns))
    if len(summary.inputs) > 1:
        table.add_row("all", *of_all)
    return titled(f"Rebalances run again{f', from {where}' if where else ''}", table)


def _common_directory(names: Iterable[str]) -> str:
    """Returns the directory that all names have in common, with a slash at the end; empty if there is no such
    directory.
    """
    directories = (name.split("/")[:-1] for name in names)
    common = itertools.takewhile(lambda level: len(set(level)) == 1, zip(*directories, strict=False))
    return "".join(f"{level[0]}/" for level in common)


def _shown(inputs: Mapping[str, Counts]) -> Iterator[tuple[str, Counts]]:
    """Yields the counts of the first `INPUTS_SHOWN` inputs, and one entry with the sums of all other inputs."""
    rest = Counts()
    for place, (name, counts) in enumerate(inputs.items()):
        if place < INPUTS_SHOWN:
            yield name, counts
        else:
            rest = rest.plus(counts)
    if rest.total:
        yield f"{len(inputs) - INPUTS_SHOWN:,} other inputs", rest


def _cells(counts: Counts, columns: Mapping[str, str]) -> list[str]:
    cells = {name: f"{getattr(counts, field):,}" for name, field in columns.items()}
    if not counts.compared_bytes and _TO_THE_BYTE in cells:
        cells[_TO_THE_BYTE] = "-"
    return list(cells.values())


def _measures_table(summary: Summary) -> Group:
    table = plain_table(show_header=False)
    table.add_column()
    table.add_column(justify="right")
    document = summary.measures.document()
    for name, label in _SUMS.items():
        table.add_row(label, _number(document[name]))
    times = summary.compute_times.document()
    for name, label in (("median", "median"), ("p95", "95th of 100"), ("max", "longest")):
        table.add_row(f"milliseconds to compute a rebalance, {label}", _number(times[name]))
    return titled("What the rebalances do", table)


def _beside_table(summary: Summary) -> Group:
    beside = summary.beside
    document = beside.document()
    recorded, now = document["recorded"], document["now"]
    assert isinstance(recorded, dict)
    assert isinstance(now, dict)
    table = plain_table()
    table.add_column(f"{beside.rounds:,} rebalances that have both")
    table.add_column("recorded", justify="right")
    table.add_column("now", justify="right")
    for name, label in _BESIDE.items():
        table.add_row(label, _number(recorded[name]), _number(now[name]))
    return titled("As recorded, and now", table)


def _number(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,.3f}" if isinstance(value, float) else f"{value:,}"
