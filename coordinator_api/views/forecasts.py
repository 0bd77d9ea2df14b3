"""What would be different, for templates: the tasks whose copies would be elsewhere, and how the forecast ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rebalance_analysis.presentation.comparisons import difference_summary
from rebalance_analysis.presentation.forecasts import verdict
from rebalance_analysis.presentation.moves import copy_changes

TASKS_SHOWN = 500


def changes_shown(answer: Mapping[str, Any]) -> dict[str, Any]:
    """`answer`, which has a difference, a forecast and the names of instances, with `tasks` that are elsewhere, the
    number of those that are left out (`tasks_more`), a `summary` of the difference, and the `verdict` of the forecast.
    """
    names, every = answer["names"], answer["difference"]["tasks"]
    tasks = [copy_changes(each, lambda process: str(names.get(process, process))) for each in every[:TASKS_SHOWN]]
    more = max(0, len(every) - TASKS_SHOWN)
    summary = difference_summary(answer["difference"])
    return {
        **answer,
        "tasks": tasks,
        "tasks_more": more,
        "summary": summary,
        "verdict": verdict(answer["forecast"]),
    }
