"""The options that describe members and cluster to a forecast, and the model and limit they make."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import typer

from assignor.errors import InputError
from rebalance_analysis.simulate.model import ForecastModel, check_model

_MODEL = ForecastModel()

RESTORE_RATE = "--restore-rate"
STANDBY_RATE = "--standby-rate"
APPEND_RATE = "--append-rate"
REBALANCE_MS = "--rebalance-ms"
SESSION_TIMEOUT_MS = "--session-timeout-ms"
STATE_CLEANUP_DELAY_MS = "--state-cleanup-delay-ms"
JITTER = "--jitter"
MAX_ROUNDS = "--max-rounds"

MaxRoundsOption = Annotated[
    int,
    typer.Option(
        MAX_ROUNDS, metavar="N", help="Maximum number of rebalances in a forecast, including the recorded one."
    ),
]
RestoreRateOption = Annotated[
    float, typer.Option(RESTORE_RATE, metavar="R", help="Records a stream thread restores in a second.")
]
StandbyRateOption = Annotated[
    float, typer.Option(STANDBY_RATE, metavar="R", help="Records that standbys and warm-ups read in a second.")
]
AppendRateOption = Annotated[
    float, typer.Option(APPEND_RATE, metavar="R", help="Records that a stateful task writes in a second.")
]
RebalanceMsOption = Annotated[int, typer.Option(REBALANCE_MS, metavar="MS", help="How long one rebalance takes.")]
SessionTimeoutOption = Annotated[
    int, typer.Option(SESSION_TIMEOUT_MS, metavar="MS", help="Time until the group notices that an instance is gone.")
]
StateCleanupDelayOption = Annotated[
    int, typer.Option(STATE_CLEANUP_DELAY_MS, metavar="MS", help="How long the state of a closed task stays on disk.")
]
JitterOption = Annotated[
    float,
    typer.Option(JITTER, metavar="J", help="0 to 1: the largest fraction by which an instance is faster or slower."),
]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed from which the jitter is drawn.")]

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


class ForecastAsked(NamedTuple):
    """`max_rounds`: the recorded one included."""

    model: ForecastModel
    max_rounds: int


def forecast_from_options(
    *,
    max_rounds: MaxRoundsOption = 1000,
    restore_rate: RestoreRateOption = _MODEL.restore_records_per_s,
    standby_rate: StandbyRateOption = _MODEL.standby_records_per_s,
    append_rate: AppendRateOption = _MODEL.appended_records_per_s,
    rebalance_ms: RebalanceMsOption = _MODEL.rebalance_ms,
    session_timeout_ms: SessionTimeoutOption = _MODEL.session_timeout_ms,
    state_cleanup_delay_ms: StateCleanupDelayOption = _MODEL.state_cleanup_delay_ms,
    jitter: JitterOption = _MODEL.jitter,
    seed: SeedOption = _MODEL.seed,
) -> ForecastAsked:
    """Raises InputError naming the option that is out of bounds."""
    model = ForecastModel(
        restore_rate,
        standby_rate,
        append_rate,
        rebalance_ms,
        session_timeout_ms,
        state_cleanup_delay_ms,
        jitter,
        seed,
    )
    try:
        check_model(model, max_rounds)
    except InputError as error:
        field = error.where or ""
        raise InputError(str(error).removeprefix(f"{field}: "), _OPTIONS.get(field, field)) from None
    return ForecastAsked(model, max_rounds)
