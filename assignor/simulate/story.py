"""The rounds of a forecast one after the other, and what they add up to."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain

from assignor.measures import RebalanceMeasures, previous_owners
from assignor.simulate.group_members import Members
from assignor.simulate.leader import Decided
from assignor.simulate.model import End, Forecast, ForecastRebalance, ForecastTrigger, Loop
from assignor.types import ProcessId, TaskId


@dataclass(slots=True)
class ForecastHistory:
    """A move is a change of the process that a task is given to, from one round to the next, so a task that is held
    back and handed over in the follow-up moves once.
    """

    _rounds: list[ForecastRebalance] = field(default_factory=list)
    _held_back: list[frozenset[TaskId]] = field(default_factory=list)
    _owners: dict[TaskId, ProcessId] = field(default_factory=dict)
    _warming_up: frozenset[tuple[ProcessId, TaskId]] = frozenset()
    _warm_ups: int = 0

    def add(
        self, now_ms: int, trigger: ForecastTrigger, decided: Decided, measures: RebalanceMeasures, unowned: int
    ) -> None:
        clients = decided.placement.clients
        owners = {task: process for process, placed in clients.items() for task in placed.active}
        warming_up = frozenset((process, task) for process, placed in clients.items() for task in placed.warm_ups)
        moved = self._moved(decided, owners)
        self._warm_ups += len(warming_up - self._warming_up)
        self._owners, self._warming_up = owners, warming_up
        self._held_back.append(decided.held_back)
        self._rounds.append(
            ForecastRebalance(
                number=len(self._rounds) + 1,
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
        """`now_ms`: who waits for an owner does so up to now at least. `members`: None when no round took place."""
        rounds = tuple(self._rounds)
        stable = end is End.STABLE
        restored_ms = members.caught_up_ms() if members is not None and stable else None
        behind: tuple[TaskId, ...] = ()
        if members is not None:
            behind = members.never_caught_up() if stable else members.behind(now_ms)
            members.runs.finish(now_ms)
        return Forecast(
            end=end,
            rounds=rounds,
            stable_after_ms=rounds[-1].at_ms if stable else None,
            restored_after_ms=restored_ms,
            active_moves=sum(len(each.moved) for each in rounds),
            standby_moves=sum(each.measures.standby_moved for each in rounds),
            warm_ups=self._warm_ups,
            unowned_ms=0 if members is None else members.runs.unowned_ms,
            unowned_longest_ms=0 if members is None else members.runs.longest_ms,
            unowned_longest_task=None if members is None else members.runs.longest_task,
            loop=None if loop_from is None else self._loop(loop_from),
            error=error,
            final=rounds[-1].measures if rounds else None,
            owners=tuple(sorted(self._owners.items())),
            behind=behind,
        )

    def _moved(self, decided: Decided, owners: dict[TaskId, ProcessId]) -> tuple[TaskId, ...]:
        if self._rounds:
            return tuple(sorted(task for task, owner in owners.items() if self._owners.get(task, owner) != owner))
        before = previous_owners(decided.problem)
        return tuple(sorted(task for task, owner in owners.items() if owner not in before.get(task, (owner,))))

    def _loop(self, first: int) -> Loop:
        rounds = self._rounds[first - 1 :]
        tasks = frozenset(chain.from_iterable((*each.moved, *each.warming_up) for each in rounds))
        return Loop(first, len(rounds), tuple(sorted(tasks.union(*self._held_back[first - 1 :]))))
