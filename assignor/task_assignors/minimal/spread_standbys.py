"""Finds targets of standbys step by step: for tasks of the tag rule, for tasks of `apart` pins, and for large groups.

The method of this module keeps the number of restored standbys low, but does not find the optimum (see
`standby_targets.py`):

1. Every task keeps its present copies. If an active task moves away from a client, the client's copy is kept as well.
2. Missing standbys go to the clients with the fewest copies per thread. If clients are equally loaded and a rack-aware
   strategy is configured, the standby goes to the client with the fewest cross-rack reads.
3. Standbys move from clients with more than their share of all copies to clients with less than their share. Standbys
   move first if a destination has some state of the task. After these moves, a source gives away the standbys for which
   it has the least state.
"""

from collections.abc import Sequence
from dataclasses import InitVar, dataclass
from heapq import heapify, heappop, heappush

from assignor.task_assignors.client_tags import Tag
from assignor.task_assignors.minimal.copies import CAUGHT_UP, NO_COPY, Copies
from assignor.task_assignors.minimal.shares import level_shares
from assignor.task_assignors.minimal.spread import StandbySpread
from assignor.task_assignors.racks.optimization import Foreign
from assignor.task_assignors.working_state import WorkingState


@dataclass(eq=False)
class SpreadStandbys:
    """Places the standbys of `tasks` in `state`. `foreign`: the argument `foreign` of `assign_standby_targets`."""

    _state: WorkingState
    _copies: Copies
    _spread: StandbySpread
    tasks: InitVar[Sequence[int]]
    _foreign: Sequence[Foreign] = ()

    def __post_init__(self, tasks: Sequence[int]) -> None:
        self._of_task: dict[int, list[int]] = {task: [] for task in tasks}

    def placed(self, num_standby_replicas: int, balance: bool) -> dict[int, list[int]]:
        """Places the standbys. Returns the clients of each task's standbys. `balance`: False if the caller places the
        standbys of other tasks later, and then balances the clients.
        """
        self._keep_present_standbys(num_standby_replicas)
        self._place_missing(num_standby_replicas)
        if balance:
            self._balance()
        return self._of_task

    def _keep_present_standbys(self, wanted: int) -> None:
        """Keeps the present copies of each task. Tasks with more caught-up copies than they need are handled last. A
        task with too many caught-up copies keeps the copies on the least loaded clients.
        """
        choosing: list[int] = []
        for task in self._of_task:
            if self._has_choice(task, wanted):
                choosing.append(task)
            else:
                self._keep(task, wanted, by_load=False)
        for task in choosing:
            self._keep(task, wanted, by_load=True)

    def _has_choice(self, task: int, wanted: int) -> bool:
        owner = self._state.owner[task]
        caught_up = [client for client, level in self._copies.level[task].items() if level == CAUGHT_UP]
        return sum(client != owner for client in caught_up) > wanted

    def _keep(self, task: int, wanted: int, by_load: bool) -> None:
        """Keeps up to `wanted` copies of the task as standbys; copies with less missing state have priority. If copies
        have equal levels, a standby has priority over the copy of the previous owner.
        """
        copies, state = self._copies, self._state
        there = sorted(
            (client for client in copies.level[task] if self._spread.may_hold(task, client)),
            key=lambda client: (
                copies.level[task][client],
                state.load(client) if by_load else 0,
                client == copies.previous[task],
                copies.lags.lag(task, client),
                client,
            ),
        )
        if self._spread.is_apart(task):
            for client in there:
                if len(self._of_task[task]) < wanted and self._spread.may_hold(task, client):
                    self._put(task, client)
            return
        if not self._spread.is_spread(task, there[:wanted]):
            there = self._spread.spread_first(task, there)
        for client in there[:wanted]:
            self._put(task, client)

    def _put(self, task: int, client: int) -> None:
        self._spread.put(task, client)
        self._of_task[task].append(client)

    def _place_missing(self, wanted: int) -> None:
        """Places the missing standbys of all tasks, first on clients with unused tags. As in Kafka, if no client has
        unused tags for a standby, the standby goes to any allowed client.
        """
        state = self._state
        missing = [task for task, standbys in self._of_task.items() if len(standbys) < wanted]
        missing.sort(key=lambda task: (-self._copies.weight[task], task))
        queue = [(state.load(client), client) for client in range(len(state.clients))]
        heapify(queue)
        for on_unused_tags in (True, False):
            for task in missing:
                while len(self._of_task[task]) < wanted:
                    client = self._draw(queue, task, on_unused_tags)
                    if client is None:
                        break
                    self._put(task, client)
                    heappush(queue, (state.load(client), client))

    def _draw(self, queue: list[tuple[float, int]], task: int, on_unused_tags: bool) -> int | None:
        """Removes from the queue the least loaded client that may hold a standby of the task, and returns this client.
        If several of the least loaded clients may hold the standby, removes the client with the fewest cross-rack
        reads.
        """
        spread = self._spread
        used: frozenset[Tag] = frozenset()
        if on_unused_tags:
            copies = [self._state.owner[task], *self._of_task[task]]
            used = spread.used_tags(copies)
            if not spread.spreads(task) or not spread.anyone_has_unused_tags(task, used, copies):
                return None
        fit: list[tuple[float, int]] = []
        others: list[tuple[float, int]] = []
        while queue and (not fit or (self._foreign and queue[0][0] == fit[0][0])):
            entry = heappop(queue)
            may_hold = spread.has_unused_tags(entry[1], used) and spread.may_hold(task, entry[1])
            (fit if may_hold else others).append(entry)
        found = min(fit, key=lambda entry: self._foreign[task][entry[1]] if self._foreign else 0, default=None)
        for entry in (*fit, *others):
            if entry is not found:
                heappush(queue, entry)
        return None if found is None else found[1]

    def _balance(self) -> None:
        quota = self._quotas()
        self._take_present_standbys(quota)
        over = [client for client in range(len(quota)) if self._state.assigned[client] > quota[client]]
        for client in over:
            while self._state.assigned[client] > quota[client]:
                if not self._give_one(client, quota) and not self._give_along_a_chain(client, quota):
                    break

    def _quotas(self) -> list[int]:
        """Returns the number of copies that each client should have: its share, rounded down or up. If not all shares
        can be rounded up, priority goes to clients with more copies than their rounded-down share. Because of this
        rule, fewer copies move.
        """
        state = self._state
        active = [len(tasks) for tasks in state.active]
        shares = level_shares(sum(state.assigned), state.capacity, active, [len(state.tasks)] * len(active))
        quota = [share.numerator // share.denominator for share in shares]
        left = sum(state.assigned) - sum(quota)
        fractional = [client for client, share in enumerate(shares) if share.denominator > 1]
        fractional.sort(key=lambda client: (state.assigned[client] <= quota[client], client))
        for client in fractional[: max(0, left)]:
            quota[client] += 1
        return quota

    def _take_present_standbys(self, quota: list[int]) -> None:
        """Moves standbys from clients with too many copies. A standby moves only to a client that has too few copies
        and already has some of the task's state. The moves to clients with the least missing state come first.
        """
        copies, state = self._copies, self._state
        claims = sorted(
            (level, task, client)
            for task in self._of_task
            for client, level in copies.level[task].items()
            if state.assigned[client] < quota[client] and not state.holds(client, task)
        )
        for _, task, client in claims:
            if state.assigned[client] >= quota[client]:
                continue
            giving = [other for other in self._of_task[task] if state.assigned[other] > quota[other]]
            giving.sort(key=lambda other: (-copies.level_on(task, other), other))
            source = next((other for other in giving if self._may_move(task, other, client)), None)
            if source is not None:
                self._move(task, source, client)

    def _give_one(self, source: int, quota: list[int]) -> bool:
        """Moves one standby from `source` to another client. Of the clients that may hold the standby, chooses the
        client that lacks the most copies per thread. Tasks with the least state on `source` are tried first. If two
        tasks have equal state on `source`, the lighter task is tried first.
        """
        state = self._state
        lacking = [client for client in range(len(quota)) if state.assigned[client] < quota[client]]
        lacking.sort(key=lambda client: ((state.assigned[client] - quota[client]) / state.capacity[client], client))
        for task in self._cheapest_first(source):
            destination = next((client for client in lacking if self._may_move(task, source, client)), None)
            if destination is not None:
                self._move(task, source, destination)
                return True
        return False

    def _give_along_a_chain(self, source: int, quota: list[int]) -> bool:
        """Moves standbys along a chain of clients, if no client with too few copies may get a standby from `source`.

        Each client of the chain gets a standby from the previous client, and gives another standby to the next client.
        A breadth-first search finds the shortest chain. Returns True if a standby has moved.
        """
        state = self._state
        came_from: dict[int, tuple[int, int]] = {}
        front = [source]
        while front:
            following: list[int] = []
            for giver in front:
                for taker in range(len(quota)):
                    if taker == source or taker in came_from:
                        continue
                    task = next(
                        (task for task in self._cheapest_first(giver) if self._may_move(task, giver, taker)), None
                    )
                    if task is None:
                        continue
                    came_from[taker] = (giver, task)
                    if state.assigned[taker] < quota[taker]:
                        return self._move_along(source, taker, came_from)
                    following.append(taker)
            front = following
        return False

    def _move_along(self, source: int, taker: int, came_from: dict[int, tuple[int, int]]) -> bool:
        """Carries out the moves of the chain, the last move first. Stops if the next move has become illegal because of
        tags or pins. Returns True if a standby has moved.
        """
        moved = False
        while taker != source:
            giver, task = came_from[taker]
            if not self._may_move(task, giver, taker):
                return moved
            self._move(task, giver, taker)
            moved = True
            taker = giver
        return moved

    def _cheapest_first(self, client: int) -> list[int]:
        copies = self._copies
        return sorted(
            self._state.standby[client],
            key=lambda task: (-copies.level[task].get(client, NO_COPY), copies.weight[task], task),
        )

    def _may_move(self, task: int, source: int, destination: int) -> bool:
        return self._spread.may_move(task, source, destination, self._of_task[task])

    def _move(self, task: int, source: int, destination: int) -> None:
        self._spread.move(task, source, destination)
        self._of_task[task].remove(source)
        self._of_task[task].append(destination)
