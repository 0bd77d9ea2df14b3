"""`forecast` computes one rebalance after another. A forecast ends when the group is stable, when the rebalances repeat
in a loop, or after `max_rounds` rebalances.

The leader decides at the start of a rebalance. The members receive their assignments `rebalance_ms` later. Until then,
the members continue to process their present tasks. If a member has to rejoin immediately, it rejoins when it receives
its assignment. If no member has to rejoin, the group waits for the probing rebalance. All times are in milliseconds
since the recorded rebalance.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain

from assignor.errors import RebalanceNotPlaced
from assignor.recording import RecordedPlacement, RecordedRebalance
from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.types import ProcessId, TaskId
from rebalance_analysis.measures import RebalanceMeasures, measure, previous_owners
from rebalance_analysis.rerun import LoadOwn
from rebalance_analysis.simulate.group_members import Decided, Members
from rebalance_analysis.simulate.loops import LoopFinder
from rebalance_analysis.simulate.model import (
    End,
    Forecast,
    ForecastModel,
    ForecastRebalance,
    ForecastTrigger,
    Loop,
    check_model,
)
from rebalance_analysis.simulate.placement_leader import PlacementLeader
from rebalance_analysis.simulate.rebalance_leader import RebalanceLeader

MeasureEnd = Callable[[PlacementProblem, Placement], tuple[float, ...]]
"""A function of the caller that computes measures for the last rebalance. The arguments of the function are the
placement problem and the placement.
"""


@dataclass(slots=True)
class ForecastHistory:
    """Collects the rebalances of a forecast and computes their totals. A task has moved if it is placed on a different
    process than in the previous rebalance. So if a task is held back and then assigned in the follow-up rebalance, this
    counts as one move.
    """

    _rebalances: list[ForecastRebalance] = field(default_factory=list)
    _held_back: list[frozenset[TaskId]] = field(default_factory=list)
    _owners: dict[TaskId, ProcessId] = field(default_factory=dict)
    _warming_up: frozenset[tuple[ProcessId, TaskId]] = frozenset()
    _warm_ups: int = 0
    measure_end: MeasureEnd | None = None
    _last: Decided | None = None

    def add(
        self, now_ms: int, trigger: ForecastTrigger, decided: Decided, measures: RebalanceMeasures, unowned: int
    ) -> None:
        clients = decided.placement.clients
        owners = {task: process for process, placed in clients.items() for task in placed.active}
        warming_up = frozenset((process, task) for process, placed in clients.items() for task in placed.warm_ups)
        moved = self._moved(decided, owners)
        self._warm_ups += len(warming_up - self._warming_up)
        self._owners, self._warming_up = owners, warming_up
        self._last = decided
        self._held_back.append(decided.held_back)
        self._rebalances.append(
            ForecastRebalance(
                number=len(self._rebalances) + 1,
                at_ms=now_ms,
                trigger=trigger,
                measures=measures,
                moved=moved,
                warming_up=tuple(sorted({task for _, task in warming_up})),
                followup=decided.rejoin,
                probing_at_ms=decided.probing_at_ms,
                unowned=unowned,
            )
        )

    def ended(
        self, end: End, members: Members | None, now_ms: int, *, loop_from: int | None = None, error: str | None = None
    ) -> Forecast:
        """Returns the finished forecast. `now_ms`: the end of the forecast. For a task that has no owner, the unowned
        time is counted until `now_ms`. `members`: the members after the last rebalance; None if no rebalance took
        place.
        """
        rebalances = tuple(self._rebalances)
        stable = end is End.STABLE
        restored_ms = members.caught_up_ms() if members is not None and stable else None
        behind: tuple[TaskId, ...] = ()
        if members is not None:
            behind = members.never_caught_up() if stable else members.behind(now_ms)
            members.runs.finish(now_ms)
        return Forecast(
            end=end,
            rebalances=rebalances,
            stable_after_ms=rebalances[-1].at_ms if stable else None,
            restored_after_ms=restored_ms,
            active_moves=sum(len(each.moved) for each in rebalances),
            standby_moves=sum(each.measures.standby_moved for each in rebalances),
            warm_ups=self._warm_ups,
            unowned_ms=0 if members is None else members.runs.unowned_ms,
            unowned_longest_ms=0 if members is None else members.runs.longest_ms,
            unowned_longest_task=None if members is None else members.runs.longest_task,
            loop=None if loop_from is None else self._loop(loop_from),
            error=error,
            final=rebalances[-1].measures if rebalances else None,
            owners=tuple(sorted(self._owners.items())),
            behind=behind,
            own_measures=self._own_measures(),
        )

    def _own_measures(self) -> tuple[float, ...]:
        if self.measure_end is None or self._last is None:
            return ()
        return self.measure_end(self._last.problem, self._last.placement)

    def _moved(self, decided: Decided, owners: dict[TaskId, ProcessId]) -> tuple[TaskId, ...]:
        if self._rebalances:
            return tuple(sorted(task for task, owner in owners.items() if self._owners.get(task, owner) != owner))
        before = previous_owners(decided.problem)
        return tuple(sorted(task for task, owner in owners.items() if owner not in before.get(task, (owner,))))

    def _loop(self, first: int) -> Loop:
        rebalances = self._rebalances[first - 1 :]
        tasks = frozenset(chain.from_iterable((*each.moved, *each.warming_up) for each in rebalances))
        return Loop(first, len(rebalances), tuple(sorted(tasks.union(*self._held_back[first - 1 :]))))


_DEFAULT_MODEL = ForecastModel()


def forecast(
    recorded: RecordedRebalance | RecordedPlacement,
    model: ForecastModel = _DEFAULT_MODEL,
    *,
    max_rounds: int = 1000,
    load_own: LoadOwn | None = None,
    as_recorded: RecordedRebalance | RecordedPlacement | None = None,
    measure_end: MeasureEnd | None = None,
) -> Forecast:
    """Makes a forecast of the rebalances of a group. The first rebalance is the recorded rebalance. Equal arguments
    give equal forecasts.

    `max_rounds`: the largest number of rebalances, including the recorded rebalance. `load_own`: a function that loads
    a user's own assignor (`LoadOwn` in `rebalance_analysis.rerun`). `as_recorded`: for a what-if, the recorded line
    without the changes. This line shows the previous owners of tasks and the previous number of standbys.
    `measure_end`: a function that computes measures for the placement of the last rebalance. If the leader cannot place
    the tasks of a rebalance, the forecast ends with `End.ERROR`. Raises InputError if a value of the model is out of
    bounds, or if a member has a future version. Raises DecodeError if the bytes of a member cannot be decoded. Raises
    NotBuiltYet if the recording needs a later release of this program.
    """
    check_model(model, max_rounds)
    leader: RebalanceLeader | PlacementLeader
    if isinstance(recorded, RecordedRebalance):
        before = as_recorded if isinstance(as_recorded, RecordedRebalance) else recorded
        leader = RebalanceLeader(recorded, model, load_own, before)
    else:
        placed_before = as_recorded if isinstance(as_recorded, RecordedPlacement) else recorded
        leader = PlacementLeader(recorded, model, load_own, placed_before)
    return _run(leader, ForecastHistory(measure_end=measure_end), model, max_rounds)


def _run(
    leader: RebalanceLeader | PlacementLeader, history: ForecastHistory, model: ForecastModel, max_rounds: int
) -> Forecast:
    try:
        decided, members = leader.recorded_rebalance()
    except RebalanceNotPlaced as failure:
        return history.ended(End.ERROR, None, 0, error=str(failure))
    loops = LoopFinder()
    number, now_ms, trigger = 1, 0, ForecastTrigger.RECORDED
    while True:
        repeated = loops.find(number, trigger, decided, members, now_ms)
        if repeated is not None:
            return history.ended(End.LOOP, members, now_ms, loop_from=repeated)
        running = sum(1 for at_ms in members.runs.runs_from.values() if at_ms <= now_ms)
        measures = measure(decided.problem, decided.placement)
        history.add(now_ms, trigger, decided, measures, unowned=measures.tasks - running)
        arrives_ms = now_ms + model.rebalance_ms
        members.hand_out(decided.handed_out, arrives_ms)
        if not decided.rejoin and decided.probing_at_ms is None:
            return history.ended(End.STABLE, members, arrives_ms)
        if number >= max_rounds:
            return history.ended(End.OUT_OF_ROUNDS, members, arrives_ms)
        if decided.rejoin or decided.probing_at_ms is None:
            now_ms, trigger = arrives_ms, ForecastTrigger.FOLLOW_UP
        else:
            now_ms, trigger = max(decided.probing_at_ms, arrives_ms), ForecastTrigger.PROBING
        number += 1
        try:
            decided = leader.next_rebalance(members, now_ms)
        except RebalanceNotPlaced as failure:
            return history.ended(End.ERROR, members, now_ms, error=str(failure))
