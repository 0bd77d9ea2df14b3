"""A forecast as a JSON document: every field under its name, tasks and processes as text, times in milliseconds."""

from __future__ import annotations

from dataclasses import asdict

from assignor.measures import RebalanceMeasures
from assignor.simulate.model import Forecast, ForecastModel, ForecastRebalance


def forecast_document(forecast: Forecast, model: ForecastModel | None = None) -> dict[str, object]:
    """`model`: what the forecast was made with, to go with it."""
    loop = forecast.loop
    document: dict[str, object] = {
        "end": forecast.end.value,
        "stable_after_ms": forecast.stable_after_ms,
        "restored_after_ms": forecast.restored_after_ms,
        "probing_rounds": forecast.probing_rounds,
        "active_moves": forecast.active_moves,
        "standby_moves": forecast.standby_moves,
        "warm_ups": forecast.warm_ups,
        "unowned_ms": forecast.unowned_ms,
        "unowned_longest_ms": forecast.unowned_longest_ms,
        "unowned_longest_task": _text(forecast.unowned_longest_task),
        "loop": None
        if loop is None
        else {"first_round": loop.first_round, "length": loop.length, "tasks": [str(task) for task in loop.tasks]},
        "error": forecast.error,
        "behind": [str(task) for task in forecast.behind],
        "final": None if forecast.final is None else measures_document(forecast.final),
        "owners": {str(task): str(process) for task, process in forecast.owners},
        "rounds": [_round_document(each) for each in forecast.rounds],
    }
    return document if model is None else document | {"model": asdict(model)}


def measures_document(measures: RebalanceMeasures) -> dict[str, object]:
    return asdict(measures) | {"thread_loads": list(measures.thread_loads)}


def _round_document(each: ForecastRebalance) -> dict[str, object]:
    return {
        "number": each.number,
        "at_ms": each.at_ms,
        "trigger": each.trigger.value,
        "moved": [str(task) for task in each.moved],
        "warming_up": [str(task) for task in each.warming_up],
        "followup": each.followup,
        "probing_at_ms": each.probing_at_ms,
        "unowned": each.unowned,
        "measures": measures_document(each.measures),
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)
