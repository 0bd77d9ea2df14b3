"""What a forecast assumes of the members and the cluster, within which bounds, and what it gives, also as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum

from assignor.errors import InputError
from assignor.recording.documents import document_of, document_of_fields
from assignor.types import JAVA_INT_MAX, ProcessId, TaskId
from rebalance_analysis.measures import RebalanceMeasures


@dataclass(frozen=True, slots=True)
class ForecastModel:
    """Rates are records per second; times are milliseconds.

    `restore_records_per_s`: of one stream thread, over all active tasks that it restores. `standby_records_per_s`: of
    one stream thread, over all its standbys and warm-ups, which wait while it restores active tasks.
    `appended_records_per_s`: how fast the changelogs of each stateful task grow while the task runs. `rebalance_ms`:
    from the start of a rebalance until its members have their assignments. `session_timeout_ms`: until the group
    notices that a process is gone; only the unowned time depends on it. `state_cleanup_delay_ms`: after this time a
    process removes the state of a task that it was not given again (Kafka's state.cleanup.delay.ms). `jitter`: from 0
    to 1; all rates of a process are multiplied by one number between 1 - jitter and 1 + jitter, which `seed` decides.
    """

    restore_records_per_s: float = 100_000.0
    standby_records_per_s: float = 100_000.0
    appended_records_per_s: float = 0.0
    rebalance_ms: int = 500
    session_timeout_ms: int = 45_000
    state_cleanup_delay_ms: int = 600_000
    jitter: float = 0.0
    seed: int = 0


class ForecastTrigger(StrEnum):
    """Why a rebalance of a forecast takes place."""

    RECORDED = "recorded"
    FOLLOW_UP = "follow-up"
    PROBING = "probing"


class End(StrEnum):
    """How a forecast ends."""

    STABLE = "stable"
    LOOP = "loop"
    OUT_OF_ROUNDS = "out of rounds"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class ForecastRebalance:
    """`at_ms`: since the recorded rebalance. `moved`: tasks whose active copy changed its process; `warming_up`: tasks
    with a warm-up. `followup`, `probing_at_ms`: what the leader asked for, the latter since the recorded rebalance
    too. `unowned`: tasks that run nowhere when the rebalance begins.
    """

    number: int
    at_ms: int
    trigger: ForecastTrigger
    moved: tuple[TaskId, ...]
    warming_up: tuple[TaskId, ...]
    followup: bool
    probing_at_ms: int | None
    unowned: int
    measures: RebalanceMeasures


@dataclass(frozen=True, slots=True)
class Loop:
    """Rebalances that repeat without end: from `first_round` to `first_round + length - 1`, then the same again.

    `tasks`: those that move, warm up or are held back in these rebalances, and so keep the group from settling.
    """

    first_round: int
    length: int
    tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class Forecast:
    """`stable_after_ms`: when the last rebalance that was needed took place; None when the group does not settle.

    `restored_after_ms`: when every copy had caught up after that; None when one never does. `active_moves`,
    `standby_moves`, `warm_ups`: copies over all rebalances; a warm-up counts once, when it begins. `unowned_ms`: how
    long tasks ran nowhere (revoked and not yet handed out, being restored, or their process gone), summed over tasks;
    `unowned_longest_ms` and `unowned_longest_task`: the longest such time of one task. `final`: the measures of the
    last rebalance.
    """

    end: End
    rebalances: tuple[ForecastRebalance, ...]
    stable_after_ms: int | None
    restored_after_ms: int | None
    active_moves: int
    standby_moves: int
    warm_ups: int
    unowned_ms: int
    unowned_longest_ms: int
    unowned_longest_task: TaskId | None
    loop: Loop | None
    error: str | None
    final: RebalanceMeasures | None
    owners: tuple[tuple[TaskId, ProcessId], ...]
    """Where every task is active at the end."""
    behind: tuple[TaskId, ...] = ()
    """Tasks with a copy that has not caught up at the end; in a stable group, with one that never will."""
    own_measures: tuple[float, ...] = ()
    """Of the placement of the last rebalance; what the caller of the forecast measures beside `final`."""

    @property
    def probing_rounds(self) -> int:
        """The recorded rebalance and those that probing asked for; follow-ups only hand over what these decided."""
        return sum(1 for each in self.rebalances if each.trigger is not ForecastTrigger.FOLLOW_UP)


HIGHEST_RATE = 1e15
"""Records per second. Beyond it, any number of records takes no time."""

LOWEST_RATE = 1e-3
LONGEST_MS = JAVA_INT_MAX
_LONGEST_SHOWN_BITS = 128


def check_model(model: ForecastModel, max_rounds: int) -> None:
    """Raises InputError; its `where` is the field of the model."""
    for name in ("restore_records_per_s", "standby_records_per_s"):
        _check_number(name, getattr(model, name), LOWEST_RATE, HIGHEST_RATE)
    _check_number("appended_records_per_s", model.appended_records_per_s, 0, HIGHEST_RATE)
    for name in ("rebalance_ms", "session_timeout_ms", "state_cleanup_delay_ms"):
        _check_number(name, getattr(model, name), 0, LONGEST_MS)
    _check_number("jitter", model.jitter, 0, 1)
    _check_number("max_rounds", max_rounds, 1, JAVA_INT_MAX)


def _check_number(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:  # nor is NaN
        raise InputError(f"must be from {_shown(low)} to {_shown(high)}, not {_shown(value)}", name)


def _shown(number: float) -> str:
    if isinstance(number, int):
        return str(number) if number.bit_length() <= _LONGEST_SHOWN_BITS else f"a number of {number.bit_length()} bits"
    return f"{number:g}"


def forecast_document(forecast: Forecast, model: ForecastModel | None = None) -> dict[str, object]:
    """Every field under its name, tasks and processes as text, times in milliseconds. `model`: what the forecast
    assumed; it is added to the document.
    """
    document = {
        **document_of_fields(forecast, "end", "stable_after_ms", "restored_after_ms", "probing_rounds"),
        **document_of_fields(forecast, "active_moves", "standby_moves", "warm_ups"),
        **document_of_fields(forecast, "unowned_ms", "unowned_longest_ms", "unowned_longest_task"),
        **document_of_fields(forecast, "loop", "error", "behind", "final"),
        "owners": {str(task): str(process) for task, process in forecast.owners},
        "rounds": document_of(forecast.rebalances),
    }
    return document if model is None else document | {"model": asdict(model)}
