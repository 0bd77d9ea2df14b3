"""Settings and metrics as Markdown tables, and the check that a document mentions each of them."""

from collections.abc import Iterable

from coordinator_api.metrics import METRICS
from coordinator_api.settings import setting_rows


def settings_table() -> str:
    """One row a setting: its name, its default, what it is for."""
    rows = ((f"`{row.name}`", f"`{row.default}`", row.description) for row in setting_rows())
    return _table(("setting", "default", "what it is"), rows)


def metrics_table() -> str:
    rows = ((f"`{metric.name}`", ", ".join(metric.labels), metric.description) for metric in METRICS)
    return _table(("metric", "labels", "what it counts"), rows)


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
