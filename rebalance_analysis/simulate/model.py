"""The assumptions of a forecast about members and cluster, the bounds of their values, and the result of a forecast."""

from dataclasses import asdict, dataclass
from enum import StrEnum

from assignor.errors import InputError
from assignor.recording.documents import document_of, document_of_fields
from assignor.types import JAVA_INT_MAX, ProcessId, TaskId
from rebalance_analysis.measures import RebalanceMeasures


@dataclass(frozen=True, slots=True)
class ForecastModel:
    """The assumptions of a forecast. Rates are in records per second. Times are in milliseconds.

    `restore_records_per_s`: the rate at which one stream thread restores all its active tasks together.
    `standby_records_per_s`: the rate at which one stream thread reads records for all its standbys and warm-ups
    together. Standbys and warm-ups read no records while the thread restores active tasks. `appended_records_per_s`:
    the rate at which the changelogs of each stateful task grow while the task runs. `rebalance_ms`: the time from the
    start of a rebalance until its members have their assignments. `session_timeout_ms`: the time until the group
    notices that a process failed. In the result, `session_timeout_ms` affects only the time during which tasks have no
    owner. `state_cleanup_delay_ms`: Kafka's state.cleanup.delay.ms. A process removes the state of a task after the
    task has been closed for this delay. `jitter`: a number from 0 to 1. Each process has a random number between 1 -
    jitter and 1 + jitter. All its rates are multiplied by this number. `seed`: the seed of the random numbers of the
    processes.
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
    """The trigger of a rebalance in a forecast."""

    RECORDED = "recorded"
    FOLLOW_UP = "follow-up"
    PROBING = "probing"


class End(StrEnum):
    """The possible ends of a forecast."""

    STABLE = "stable"
    LOOP = "loop"
    OUT_OF_ROUNDS = "out of rounds"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class ForecastRebalance:
    """One rebalance of a forecast. `at_ms`: the time of the rebalance in milliseconds since the recorded rebalance.
    `moved`: the tasks whose active copy moved to another process. `warming_up`: the tasks that have a warm-up.
    `followup`: True if a follow-up rebalance is needed. `probing_at_ms`: the time of the next probing rebalance, in
    milliseconds since the recorded rebalance; None if no probing rebalance is requested. `unowned`: the number of tasks
    that run on no process when the rebalance begins.
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
    """A sequence of rebalances that repeats endlessly. `first_round`: the number of the first rebalance of the
    sequence. `length`: the number of rebalances in the sequence.

    `tasks`: the tasks that move, warm up or are held back in the loop. Because of these tasks, the group never becomes
    stable.
    """

    first_round: int
    length: int
    tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class Forecast:
    """The result of a forecast. `stable_after_ms`: the time of the last rebalance; None if the group does not become
    stable. `restored_after_ms`: the time at which all copies have caught up. `restored_after_ms` is None if a copy
    never catches up, or if the group does not become stable. `active_moves`, `standby_moves`, `warm_ups`: the numbers
    of moved active copies, moved standbys and warm-ups in all rebalances. A warm-up counts only when it begins.
    `unowned_ms`: the sum, over all tasks, of the time during which the task did not run. A task does not run in three
    cases: between revocation and assignment, during its restore, and after its process failed. `unowned_longest_ms`:
    the longest period in which a task did not run. `unowned_longest_task`: the task with this longest period. `final`:
    the measures of the last rebalance.
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
    """Pairs of a task and the process that has the task's active copy at the end of the forecast."""
    behind: tuple[TaskId, ...] = ()
    """The tasks with a copy that is still behind at the end of the forecast. If the group becomes stable, these copies
    never catch up.
    """
    own_measures: tuple[float, ...] = ()
    """The values that the caller's function (`MeasureEnd`) computed for the last rebalance."""

    @property
    def probing_rounds(self) -> int:
        """The number of rebalances that are not follow-ups. A follow-up only completes the decision of an earlier
        rebalance.
        """
        return sum(1 for each in self.rebalances if each.trigger is not ForecastTrigger.FOLLOW_UP)


HIGHEST_RATE = 1e15
"""The highest allowed rate, in records per second. Real rates are far lower."""

LOWEST_RATE = 1e-3
LONGEST_MS = JAVA_INT_MAX
_LONGEST_SHOWN_BITS = 128


def check_model(model: ForecastModel, max_rounds: int) -> None:
    """Checks that the value of every field is within its bounds. If the value of a field is out of bounds, raises
    InputError with the name of the field in `where`.
    """
    for name in ("restore_records_per_s", "standby_records_per_s"):
        _check_number(name, getattr(model, name), LOWEST_RATE, HIGHEST_RATE)
    _check_number("appended_records_per_s", model.appended_records_per_s, 0, HIGHEST_RATE)
    for name in ("rebalance_ms", "session_timeout_ms", "state_cleanup_delay_ms"):
        _check_number(name, getattr(model, name), 0, LONGEST_MS)
    _check_number("jitter", model.jitter, 0, 1)
    _check_number("max_rounds", max_rounds, 1, JAVA_INT_MAX)


def _check_number(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:  # `not (...)` refuses NaN, too
        raise InputError(f"must be from {_shown(low)} to {_shown(high)}, not {_shown(value)}", name)


def _shown(number: float) -> str:
    if isinstance(number, int):
        return str(number) if number.bit_length() <= _LONGEST_SHOWN_BITS else f"a number of {number.bit_length()} bits"
    return f"{number:g}"


def forecast_document(forecast: Forecast, model: ForecastModel | None = None) -> dict[str, object]:
    """Returns the forecast as a JSON document. The keys are the names of the fields. Tasks and processes are text, and
    times are in milliseconds. `model`: the assumptions of the forecast; the document contains them, too.
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
