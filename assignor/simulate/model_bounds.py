"""What a forecast can be asked for; anything else is one InputError that names the number."""

from __future__ import annotations

import math

from assignor.errors import InputError
from assignor.simulate.model import ForecastModel
from assignor.types import JAVA_INT_MAX

HIGHEST_RATE = 1e15
"""Records per second: beyond it every number of records takes no time at all."""

LOWEST_RATE = 1e-3
LONGEST_MS = JAVA_INT_MAX


def check_model(model: ForecastModel, max_rounds: int) -> None:
    """Raises InputError; `where` is the field of the model."""
    for name in ("restore_records_per_s", "standby_records_per_s"):
        _check_number(name, getattr(model, name), LOWEST_RATE, HIGHEST_RATE)
    _check_number("appended_records_per_s", model.appended_records_per_s, 0, HIGHEST_RATE)
    for name in ("rebalance_ms", "session_timeout_ms", "state_cleanup_delay_ms"):
        _check_number(name, getattr(model, name), 0, LONGEST_MS)
    _check_number("jitter", model.jitter, 0, 1)
    _check_number("max_rounds", max_rounds, 1, JAVA_INT_MAX)


def _check_number(name: str, value: float, low: float, high: float) -> None:
    if not math.isfinite(value) or not low <= value <= high:
        raise InputError(f"must be from {_shown(low)} to {_shown(high)}, not {_shown(value)}", name)


def _shown(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"
