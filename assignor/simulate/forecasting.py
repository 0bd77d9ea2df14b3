"""`forecast`: round after round, until the group is stable, goes in circles, or has had all the rounds it may.

A round is decided when it is asked for, and its assignments arrive `rebalance_ms` later; until then everybody goes on
with what it has. Members that are to rejoin at once do so then; else the group waits for the probing rebalance. Times
are milliseconds since the recorded round.
"""

from __future__ import annotations

from assignor.measures import measure
from assignor.recording import RecordedPlacement, RecordedRebalance
from assignor.rerun import LoadOwn
from assignor.simulate.group_members import Members
from assignor.simulate.leader import Decided, ForecastLeader, RebalanceNotPlaced
from assignor.simulate.loops import LoopFinder
from assignor.simulate.model import End, Forecast, ForecastModel, ForecastTrigger
from assignor.simulate.model_bounds import check_model
from assignor.simulate.placement_leader import PlacementLeader
from assignor.simulate.rebalance_leader import RebalanceLeader
from assignor.simulate.story import ForecastHistory

_DEFAULT_MODEL = ForecastModel()


def forecast(
    recorded: RecordedRebalance | RecordedPlacement,
    model: ForecastModel = _DEFAULT_MODEL,
    *,
    max_rounds: int = 1000,
    load_own: LoadOwn | None = None,
    as_recorded: RecordedRebalance | RecordedPlacement | None = None,
) -> Forecast:
    """What the group does from the recorded round on; the same for the same arguments.

    `max_rounds`: the recorded one included. `load_own`: see `assignor.rerun`. `as_recorded`: of a what-if, the round
    without it, so that what went before (who ran what, which standbys were wanted) stays as it was. A round that the
    leader cannot place ends the forecast with `End.ERROR`. Raises InputError for a model out of bounds, and for a
    recording whose members cannot be read or are of a version not known here; NotBuiltYet.
    """
    check_model(model, max_rounds)
    leader = _leader(recorded, model, load_own, as_recorded)
    story = ForecastHistory()
    try:
        decided, members = leader.recorded_rebalance()
    except RebalanceNotPlaced as failure:
        return story.ended(End.ERROR, None, 0, error=str(failure))
    return _run_on(leader, decided, members, story, model, max_rounds)


def _leader(
    recorded: RecordedRebalance | RecordedPlacement,
    model: ForecastModel,
    load_own: LoadOwn | None,
    as_recorded: RecordedRebalance | RecordedPlacement | None,
) -> ForecastLeader:
    if isinstance(recorded, RecordedRebalance):
        return RebalanceLeader(
            recorded, model, load_own, as_recorded if isinstance(as_recorded, RecordedRebalance) else None
        )
    return PlacementLeader(
        recorded, model, load_own, as_recorded if isinstance(as_recorded, RecordedPlacement) else None
    )


def _run_on(
    leader: ForecastLeader,
    decided: Decided,
    members: Members,
    story: ForecastHistory,
    model: ForecastModel,
    max_rounds: int,
) -> Forecast:
    loops = LoopFinder()
    number, now_ms, trigger = 1, 0, ForecastTrigger.RECORDED
    while True:
        repeated = loops.find(number, trigger, decided, members, now_ms)
        if repeated is not None:
            return story.ended(End.LOOP, members, now_ms, loop_from=repeated)
        running = sum(1 for at_ms in members.runs.runs_from.values() if at_ms <= now_ms)
        measures = measure(decided.problem, decided.placement)
        story.add(now_ms, trigger, decided, measures, unowned=measures.tasks - running)
        arrives_ms = now_ms + model.rebalance_ms
        members.hand_out(decided.handed_out, arrives_ms)
        if not decided.rejoin and decided.probing_at_ms is None:
            return story.ended(End.STABLE, members, arrives_ms)
        if number >= max_rounds:
            return story.ended(End.OUT_OF_ROUNDS, members, arrives_ms)
        if decided.rejoin or decided.probing_at_ms is None:
            now_ms, trigger = arrives_ms, ForecastTrigger.FOLLOW_UP
        else:
            now_ms, trigger = max(decided.probing_at_ms, arrives_ms), ForecastTrigger.PROBING
        number += 1
        try:
            decided = leader.next_rebalance(members, now_ms)
        except RebalanceNotPlaced as failure:
            return story.ended(End.ERROR, members, now_ms, error=str(failure))
