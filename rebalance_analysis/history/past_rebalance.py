"""One recorded rebalance as a history needs it: what sets it apart from the one before, and where the copies are after
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from assignor.types import AssignorErrorCode, ProcessId
from rebalance_analysis.history.recorded_copies import RecordedCopies, placed_after
from rebalance_analysis.history.triggers import ProcessView, RebalanceView, Trigger, processes_of, triggers, view_of
from rebalance_analysis.rerun import Rerun, RerunPlacement, RerunRebalance


class PastRebalance(NamedTuple):
    """`generation`: the group's generation; placement problems have none, so theirs is their place in the row.

    `interrupted`: how many generations before it are recorded as interrupted, since the rebalance before.
    """

    generation: int
    ran: Rerun
    interrupted: int = 0


@dataclass(frozen=True, slots=True)
class RebalanceFacts:
    """What every history tells of a rebalance. Times in milliseconds since the epoch, None for placement problems.

    `interrupted`: generations between the rebalance before and this one that never got an assignment; `not_recorded`:
    the others between them. `note`: what the recording says about
    itself. `error`: why no task was placed. `created`: topics that the rebalance created and the group reads.
    """

    generation: int
    id: str
    now_ms: int | None
    since_previous_ms: int | None
    not_recorded: int
    interrupted: int
    triggers: tuple[Trigger, ...]
    note: str | None
    led_by: str | None
    error: str | None
    followup: bool
    probing_at_ms: int | None
    created: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SeenRebalance:
    """A rebalance compared with the one before it."""

    facts: RebalanceFacts
    view: RebalanceView
    placed: RecordedCopies

    @property
    def processes(self) -> Mapping[ProcessId, ProcessView]:
        return self.view.processes

    def instances(self) -> dict[ProcessId, str | None]:
        """For every process the common beginning of its threads' client ids, None when they have none."""
        return {process: view.name for process, view in self.view.processes.items()}


def see(past: PastRebalance, before: SeenRebalance | None) -> SeenRebalance:
    """`before`: the rebalance before; None for the first that is recorded."""
    ran = past.ran
    processes = processes_of(ran)
    placed = placed_after(ran, processes)
    view = view_of(ran, processes, placed.held_back)
    rebalance = ran.recorded if isinstance(ran, RerunRebalance) else None
    now_ms = None if rebalance is None else rebalance.now_ms
    earlier = None if before is None else before.facts
    facts = RebalanceFacts(
        generation=past.generation,
        id=ran.id,
        now_ms=now_ms,
        since_previous_ms=None
        if earlier is None or now_ms is None or earlier.now_ms is None
        else now_ms - earlier.now_ms,
        not_recorded=0 if earlier is None else max(0, past.generation - earlier.generation - 1 - past.interrupted),
        interrupted=0 if earlier is None else past.interrupted,
        triggers=triggers(None if before is None else before.view, view, now_ms),
        note=None if rebalance is None else rebalance.note,
        led_by=None if rebalance is None else rebalance.led_by,
        error=_error(ran),
        followup=view.followup,
        probing_at_ms=view.probing_at_ms,
        created=view.created,
    )
    return SeenRebalance(facts, view, placed)


def _error(ran: Rerun) -> str | None:
    """As recorded. As decided here when nothing is recorded, or when the members were sent the error as a code."""
    if isinstance(ran, RerunPlacement):
        return None
    if ran.recorded.output is not None and ran.recorded.output.error is not None:
        return ran.recorded.output.error
    if ran.result.error is not None and ran.recorded.output is None:
        return ran.result.error.with_hint()
    return None if ran.result.error_code is AssignorErrorCode.NONE else ran.result.error_code.name
