"""The options that describe members and cluster to a forecast, and `ForecastModel` made of them."""

from __future__ import annotations

from typing import Annotated

import typer

from assignor.errors import InputError
from assignor.simulate.model import ForecastModel
from assignor.simulate.model_bounds import check_model

DEFAULT_MODEL = ForecastModel()

RESTORE_RATE = "--restore-rate"
STANDBY_RATE = "--standby-rate"
APPEND_RATE = "--append-rate"
REBALANCE_MS = "--rebalance-ms"
SESSION_TIMEOUT_MS = "--session-timeout-ms"
STATE_CLEANUP_DELAY_MS = "--state-cleanup-delay-ms"
JITTER = "--jitter"
MAX_ROUNDS = "--max-rounds"

MaxRoundsOption = Annotated[int, typer.Option(MAX_ROUNDS, metavar="N", help="The recorded one included.")]
RestoreRateOption = Annotated[
    float, typer.Option(RESTORE_RATE, metavar="R", help="Records a stream thread restores in a second.")
]
StandbyRateOption = Annotated[
    float, typer.Option(STANDBY_RATE, metavar="R", help="Records a second for standbys and warm-ups.")
]
AppendRateOption = Annotated[
    float, typer.Option(APPEND_RATE, metavar="R", help="Records a second that a stateful task writes.")
]
RebalanceMsOption = Annotated[int, typer.Option(REBALANCE_MS, metavar="MS", help="How long one round takes.")]
SessionTimeoutOption = Annotated[
    int, typer.Option(SESSION_TIMEOUT_MS, metavar="MS", help="Until an instance that is gone is noticed.")
]
StateCleanupDelayOption = Annotated[
    int, typer.Option(STATE_CLEANUP_DELAY_MS, metavar="MS", help="How long closed state stays on disk.")
]
JitterOption = Annotated[
    float, typer.Option(JITTER, metavar="J", help="0 to 1: how much faster or slower instances are.")
]
SeedOption = Annotated[int, typer.Option("--seed", help="What the jitter is drawn from.")]

_OPTIONS = {
    "restore_records_per_s": RESTORE_RATE,
    "standby_records_per_s": STANDBY_RATE,
    "appended_records_per_s": APPEND_RATE,
    "rebalance_ms": REBALANCE_MS,
    "session_timeout_ms": SESSION_TIMEOUT_MS,
    "state_cleanup_delay_ms": STATE_CLEANUP_DELAY_MS,
    "jitter": JITTER,
    "max_rounds": MAX_ROUNDS,
}


def checked_model(model: ForecastModel, max_rounds: int) -> ForecastModel:
    """Raises InputError naming the option that is out of bounds."""
    try:
        check_model(model, max_rounds)
    except InputError as error:
        field = error.where or ""
        raise InputError(str(error).removeprefix(f"{field}: "), _OPTIONS.get(field, field)) from None
    return model
