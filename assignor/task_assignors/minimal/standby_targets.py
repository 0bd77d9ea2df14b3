"""The targets of standbys, chosen so that as few standbys as possible are restored from the beginning.

Each client gets its share of all copies, active and standby, rounded down or up. If an active task moves away from a
client, this client has the whole state of the task. So for a standby, the previous owner of a task is as suitable as a
client that had a standby.

For small groups, this module finds the optimum: the cheapest flow of standbys from tasks to clients (`flow.py`). In the
flow network, every task sends one unit for each of its standbys. Each unit goes to a client other than the owner of the
task. The price of a unit grows with the amount of state that the client has to restore. With a rack-aware strategy, if
clients have to restore equally much state, the client with the fewest cross-rack reads is chosen. The network has one
arc for each pair of a task and a client. The flow is computed only for networks of up to `MAX_ARCS` arcs. For larger
groups, for tasks of the tag rule and for tasks of `apart` pins, `spread_standbys.py` finds targets step by step. The
targets that `spread_standbys.py` finds are seldom worse than the optimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assignor.task_assignors.decisions import Decision, DecisionKind
from assignor.task_assignors.minimal.copies import NO_COPY, Copies
from assignor.task_assignors.minimal.flow import FlowNetwork
from assignor.task_assignors.minimal.shares import level_shares
from assignor.task_assignors.minimal.spread import StandbySpread
from assignor.task_assignors.minimal.spread_standbys import SpreadStandbys
from assignor.task_assignors.racks.optimization import Foreign
from assignor.task_assignors.working_state import WorkingState
from assignor.types import Role


def assign_standby_targets(
    state: WorkingState, copies: Copies, spread: StandbySpread, num_standby_replicas: int, foreign: Sequence[Foreign]
) -> list[list[int]]:
    """Places standbys in `state`. The active tasks in `state` are on their targets already. Returns the clients of each
    task's standbys, sorted. `foreign[task][client]`: the number of cross-rack reads of a standby of the task on the
    client; empty without a rack-aware strategy.
    """
    tasks = range(len(state.tasks))
    exactly = [task for task in tasks if not spread.spreads(task) and not spread.is_apart(task)]
    if len(exactly) * len(state.clients) > MAX_ARCS:
        exactly = []
    one_by_one = sorted(set(tasks).difference(exactly))
    placed = SpreadStandbys(state, copies, spread, one_by_one, foreign).placed(
        num_standby_replicas, balance=not exactly
    )
    if exactly:
        cheapest = cheapest_standbys(state, copies, spread, exactly, num_standby_replicas, foreign)
        for task, standbys in cheapest.items():
            for client in standbys:
                spread.put(task, client)
        placed |= cheapest
    targets = [sorted(placed[task]) for task in tasks]
    for task, standbys in enumerate(targets):
        _log_reason(state, copies, task, standbys)
        if len(standbys) < num_standby_replicas:
            missing = num_standby_replicas - len(standbys)
            state.log.append(Decision(DecisionKind.NO_STANDBY_HOST, state.tasks[task], Role.STANDBY, detail=missing))
    return targets


def _log_reason(state: WorkingState, copies: Copies, task: int, standbys: list[int]) -> None:
    levels = copies.level[task]
    gives_up = sorted(
        (client for client in levels if client != state.owner[task] and client not in standbys),
        key=lambda client: (levels[client], client),
    )
    for client in standbys:
        if client in levels:
            state.log_decision(DecisionKind.TARGET_KEPT, task, Role.STANDBY, client)
        elif gives_up:
            state.log_decision(DecisionKind.TARGET_MOVED, task, Role.STANDBY, client, gives_up.pop(0))
        else:
            state.log_decision(DecisionKind.TARGET_NEW, task, Role.STANDBY, client)


MAX_ARCS = 5_000

_TOO_MANY = 4
"""If a client has more copies than its share, each extra copy costs more than the previous one. After this number of
extra copies, the price stays the same. Only pins can force a client to have more copies than its share.
"""


def cheapest_standbys(
    state: WorkingState,
    copies: Copies,
    spread: StandbySpread,
    tasks: Sequence[int],
    num_standby_replicas: int,
    foreign: Sequence[Foreign] = (),
) -> dict[int, list[int]]:
    """For each task in `tasks`, returns the clients of its standbys. If fewer than `num_standby_replicas` clients may
    hold a standby of a task, the task gets fewer standbys.

    `state` may have copies already. These copies do not move.
    """
    able = {task: [client for client in spread.allowed(task).clients if client != state.owner[task]] for task in tasks}
    wanted = {task: min(num_standby_replicas, len(able[task])) for task in tasks}
    network = FlowNetwork()
    source, sink = network.node(), network.node()
    units = sum(wanted.values())
    most_foreign = sum(wanted[task] * max(foreign[task]) for task in tasks) if foreign else 0
    prices = _StandbyPrices.of(units, most_foreign)
    price_of_all = units * prices.of_copy(NO_COPY, max(map(copies.weight.__getitem__, tasks)), True, 0)
    clients = _add_clients(network, sink, state, units, price_of_all + prices.foreign * most_foreign + 1)
    arcs: dict[int, list[tuple[int, int]]] = {}
    # Tasks are added to the network in reverse order. Of several equally cheap flows, the network finds one in which
    # the earliest added tasks keep their copies. So the last tasks of `tasks` keep their copies, and copies of the
    # first tasks move. The first tasks of `tasks` are also the first to get warm-ups.
    for task in reversed(tasks):
        node = network.node()
        network.arc(source, node, wanted[task], 0)
        levels, weight = copies.level[task], copies.weight[task]
        arcs[task] = [
            (
                client,
                network.arc(
                    node,
                    clients[client],
                    1,
                    prices.of_copy(
                        levels.get(client, NO_COPY),
                        weight,
                        client == copies.previous[task],
                        foreign[task][client] if foreign else 0,
                    ),
                ),
            )
            for client in able[task]
        ]
    network.fill(source, sink)
    return {task: [client for client, arc in arcs[task] if network.flow(arc)] for task in tasks}


def _add_clients(network: FlowNetwork, sink: int, state: WorkingState, units: int, uneven: int) -> list[int]:
    """Adds a node for each client to the network, with arcs to the sink. Returns the nodes. `uneven`: the price of a
    copy above the client's rounded-down share. This price must be more than the greatest possible price of all copies
    together.
    """
    most = [len(state.tasks)] * len(state.clients)
    nodes: list[int] = []
    for client, share in enumerate(level_shares(sum(state.assigned) + units, state.capacity, state.assigned, most)):
        node = network.node()
        low = share.numerator // share.denominator
        network.arc(node, sink, low - state.assigned[client], 0)
        network.arc(node, sink, int(share.denominator > 1), uneven)
        for excess in range(_TOO_MANY):
            network.arc(node, sink, 1, uneven * (units + 2) * (excess + 1))
        network.arc(node, sink, units, uneven * (units + 2) * (_TOO_MANY + 1))
        nodes.append(node)
    return nodes


@dataclass(frozen=True, slots=True)
class _StandbyPrices:
    """The prices that the flow network uses for standbys. `level`: the price of one level of missing state, for each
    unit of the task's weight. `foreign`: the price of each partition that is read across racks. With a rack-aware
    strategy, each price is more than the sum of all lower prices. So a comparison of two sums compares the most
    important criterion first.
    """

    level: int
    foreign: int

    @classmethod
    def of(cls, copies: int, most_foreign: int) -> _StandbyPrices:
        if not most_foreign:
            return cls(2, 0)
        return cls((copies + 1) * (most_foreign + 1), copies + 1)

    def of_copy(self, level: int, weight: int, ran_it_until_now: bool, foreign: int) -> int:
        """Returns the price of a standby on a client. If a task moves away from its previous owner, a standby on this
        owner costs more than on a client that had a standby.
        """
        kept = weight if self.foreign == 0 else 1
        return self.level * level * weight + self.foreign * foreign + ran_it_until_now * kept
