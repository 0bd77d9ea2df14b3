"""Where standbys belong when nothing but balance speaks against a client: the fewest restored, exactly.

As for active tasks, the answer is the cheapest flow: of every task as many units as it needs standbys, to any client
but its own at the price of how far that one has to come, through clients that have the whole number below or above
their share of all copies. Every task with every client is an arc, so this is for groups of some thousand arcs at most.
"""

from __future__ import annotations

from collections.abc import Sequence

from assignor.task_assignors.minimal.copies import NO_COPY, Copies
from assignor.task_assignors.minimal.flow import FlowNetwork
from assignor.task_assignors.minimal.shares import level_shares
from assignor.task_assignors.minimal.spread import StandbySpread
from assignor.task_assignors.working_state import WorkingState

MAX_ARCS = 5_000

_TOO_MANY = 4
"""So many copies above its share cost a client more each; any more cost the same. Only pins make it come to that."""


def cheapest_standbys(
    state: WorkingState, copies: Copies, spread: StandbySpread, tasks: Sequence[int], num_standby_replicas: int
) -> dict[int, list[int]]:
    """Each of `tasks` with the clients of its standbys; fewer than wanted where fewer clients may hold one.

    What `state` holds already stays where it is.
    """
    able = {task: [client for client in spread.allowed(task).clients if client != state.owner[task]] for task in tasks}
    wanted = {task: min(num_standby_replicas, len(able[task])) for task in tasks}
    network = FlowNetwork()
    source, sink = network.node(), network.node()
    price_of_all = sum(wanted.values()) * max(map(copies.weight.__getitem__, tasks)) * _price(NO_COPY, True)
    clients = _add_clients(network, sink, state, sum(wanted.values()), price_of_all + 1)
    arcs: dict[int, list[tuple[int, int]]] = {}
    # The flow serves the first tasks first, so the last ones stay where nothing else decides; warm-ups begin with the
    # first ones.
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
                    weight * _price(levels.get(client, NO_COPY), client == copies.previous[task]),
                ),
            )
            for client in able[task]
        ]
    network.fill(source, sink)
    return {task: [client for client, arc in arcs[task] if network.flow(arc)] for task in tasks}


def _add_clients(network: FlowNetwork, sink: int, state: WorkingState, units: int, uneven: int) -> list[int]:
    """The node of each client. `uneven`: more than all that is paid for copies."""
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


def _price(level: int, ran_it_until_now: bool) -> int:
    """A standby is kept before the client that gives the active task up becomes one."""
    return 2 * level + ran_it_until_now
