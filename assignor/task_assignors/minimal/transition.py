"""Moves tasks from their targets to clients that can run them now, by the rules of KIP-441 (`task_movement.py`).

A task has to wait if its target is not caught up and another client has a smaller lag. If a waiting task has a home, it
stays on its home client. A waiting task without a home goes to a caught-up client, or else to the client with the
smallest lag. While the task waits, its target restores the state as a warm-up, as far as max.warmup.replicas allows.
The target gets the waiting task in a later rebalance.

Differs from Kafka: a waiting task stays on the client that already runs it. The standbys of a waiting task stay on
their clients until the targets of these standbys are caught up. Because waiting tasks and their standbys stay, few
tasks move.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from assignor.task_assignors.decisions import DecisionKind
from assignor.task_assignors.minimal.copies import NOBODY, Copies
from assignor.task_assignors.task_movement import WarmUpBudget
from assignor.task_assignors.working_state import WorkingState
from assignor.types import Role

_WantedWarmUp = tuple[int, int, int, int]
"""A wanted warm-up: the level and the lag of the copy, the task, and the client. In sorted order, the copy with the
least missing state comes first. So a warm-up in progress comes before a new warm-up.
"""


@dataclass(slots=True)
class MovementTransition:
    """If a copy cannot be on its target yet, moves it in `state` to another client. `standbys[task]`: the targets of
    the task's standbys.
    """

    state: WorkingState
    copies: Copies
    standbys: Sequence[Sequence[int]]
    _actives_waited_for: list[_WantedWarmUp] = field(default_factory=list)
    _standbys_waited_for: list[_WantedWarmUp] = field(default_factory=list)
    _keeper: dict[tuple[int, int], int] = field(default_factory=dict)

    def apply(self, budget: WarmUpBudget) -> bool:
        """Moves each copy that cannot be on its target yet to another client, in `state`. Returns True if a copy waits
        for a warm-up.
        """
        state = self.state
        targets = list(state.owner)
        waiting = [task for task, target in enumerate(targets) if self.copies.lags.is_behind_another(task, target)]
        for task in sorted(set(range(len(targets))).difference(waiting)):
            self._hand_over(task, targets[task])
        for task in waiting:
            self._keep_running(task, targets[task])
        anything_waits = bool(waiting)
        for task, target in enumerate(targets):
            anything_waits |= self._place_standbys(task, target)
        self._warm_up(Role.ACTIVE, self._actives_waited_for, budget)
        self._warm_up(Role.STANDBY, self._standbys_waited_for, budget)
        return anything_waits

    def _hand_over(self, task: int, target: int) -> None:
        previous = self.copies.previous[task]
        if previous in (NOBODY, target):
            self.state.log_decision(DecisionKind.KEPT, task, Role.ACTIVE, target)
        else:
            self.state.log_decision(DecisionKind.HANDED_OVER, task, Role.ACTIVE, target, previous)

    def _keep_running(self, task: int, target: int) -> None:
        state, copies = self.state, self.copies
        home = copies.home[task]
        if home != NOBODY:
            state.move_active(target, home, task)
            state.log_decision(DecisionKind.WAITS, task, Role.ACTIVE, home, target)
            return
        caught_up = copies.lags.caught_up_clients(task)
        kind = DecisionKind.MOVED_TO_CAUGHT_UP
        if caught_up:
            source = min(
                caught_up, key=lambda client: (client not in self.standbys[task], self.state.load(client), client)
            )
        else:
            kind = DecisionKind.MOVED_TO_MOST_CAUGHT_UP
            source = next(copies.lags.ahead_of(task, target))
        state.move_active(target, source, task)
        state.log_decision(kind, task, Role.ACTIVE, source, target)

    def _place_standbys(self, task: int, target: int) -> bool:
        """Places each standby of the task on its target. If a standby cannot be on its target yet, places it on a
        substitute (see `_substitutes`). Returns True if a standby waits until its target is caught up.
        """
        state = self.state
        owner = state.owner[task]
        belong = self.standbys[task]
        substitutes = self._substitutes(task, target)
        for client in belong:
            state.standby[client].discard(task)
            state.assigned[client] -= 1
        target_waits, standby_waits = owner != target, False
        for client in sorted(belong, key=lambda client: (client != owner, client)):
            here = client
            if client == owner:
                # `client` runs the task for now. `client` gets the standby when the task has moved to the target.
                here = substitutes.pop(0)
            elif substitutes and self._is_better_for_now(task, substitutes[0], client, target):
                here = substitutes.pop(0)
                self._standbys_waited_for.append(self._wanted(task, client))
                self._keeper[task, client] = here
                standby_waits = True
            target_waits = target_waits and here != target
            state.assign_standby(here, task)
            self._log_standby(task, here, client)
        if target_waits:
            self._actives_waited_for.append(self._wanted(task, target))
        return standby_waits

    def _is_better_for_now(self, task: int, substitute: int, client: int, target: int) -> bool:
        """True if the client `substitute` should have the standby for now. `client`: the target of the standby.
        `target`: the target of the active task.

        The result is True if `client` is not caught up and has a greater lag than `substitute`. With equal lags, the
        result is True only if `substitute` is the target of the waiting active task. If a standby is on the target of
        the active task, the active task can move to the target sooner.
        """
        lags = self.copies.lags
        ahead = lags.lag(task, client) - lags.lag(task, substitute)
        return lags.is_behind_another(task, client) and (ahead > 0 or (ahead == 0 and substitute == target))

    def _log_standby(self, task: int, here: int, client: int) -> None:
        if here == client:
            self.state.log_decision(DecisionKind.KEPT, task, Role.STANDBY, client)
        else:
            self.state.log_decision(DecisionKind.WAITS, task, Role.STANDBY, here, client)

    def _substitutes(self, task: int, target: int) -> list[int]:
        """Returns the clients that may hold a standby in place of its target, smallest lag first. A substitute has some
        of the state, does not run the task, and is not a target of the task's copies. While the active task waits, its
        target is a substitute as well.
        """
        owner = self.state.owner[task]
        needed = (owner, target, *self.standbys[task])
        others = [client for client in self.copies.level[task] if client not in needed]
        if owner != target:
            others.append(target)
        return sorted(others, key=lambda client: (self.copies.lags.lag(task, client), client))

    def _wanted(self, task: int, client: int) -> _WantedWarmUp:
        return self.copies.level_on(task, client), self.copies.lags.lag(task, client), task, client

    def _warm_up(self, role: Role, wanted: list[_WantedWarmUp], budget: WarmUpBudget) -> None:
        state = self.state
        for _, _, task, client in sorted(wanted):
            source = state.owner[task] if role is Role.ACTIVE else self._keeper[task, client]
            if budget.take():
                state.assign_standby(client, task)
                state.warm_ups[client].add(task)
                state.log_decision(DecisionKind.WARM_UP, task, role, client, source)
            else:
                state.log_decision(DecisionKind.WARM_UP_BUDGET_SPENT, task, role, client, source)
