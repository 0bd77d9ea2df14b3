"""How fast each process restores: the model's rates, times a number of its own that follows from the seed."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from assignor.simulate.model import ForecastModel
from assignor.types import ProcessId

_FRACTION_BITS = 53
_FRACTIONS = float(1 << _FRACTION_BITS)


class Rates(NamedTuple):
    """Records per second of one stream thread: over the active tasks it restores, and over its standbys."""

    restore: float
    standby: float


def rates_of(model: ForecastModel, process: ProcessId, threads: int = 1) -> Rates:
    """`threads`: those taken together as one."""
    factor = _factor(model, process) * threads
    return Rates(model.restore_records_per_s * factor, model.standby_records_per_s * factor)


def _factor(model: ForecastModel, process: ProcessId) -> float:
    """Between 1 - jitter and 1 + jitter, and never 0."""
    if not model.jitter:
        return 1.0
    drawn = hashlib.blake2b(f"{model.seed}/{process}".encode(), digest_size=8).digest()
    number = int.from_bytes(drawn, "big") >> (64 - _FRACTION_BITS)
    fraction = (number + 0.5) / _FRACTIONS
    return 1.0 + model.jitter * (2.0 * fraction - 1.0)
