"""Moves tasks from clients with many tasks per thread to clients with few, in Kafka's own order of moves.

For each source in process order, and each destination in process order: move the lowest tasks as long as a move
narrows the gap; start over until nothing moves. Source: `HighAvailabilityTaskAssignor.balanceTasksOverThreads`.

Kafka looks at all pairs of clients, and sorts the source's tasks for each. Whether a pair can move anything is a
comparison of two numbers, one for each client, so a source is skipped when even the least loaded client could not take
a task from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from assignor.decisions import DecisionKind
from assignor.task_assignors.working_state import WorkingState
from assignor.types import Role


def balance_active_over_threads(state: WorkingState) -> None:
    """To be called before there are standbys."""
    _balance(state, state.active, state.move_active, lambda source, destination: True, Role.ACTIVE)


def balance_standbys_over_threads(state: WorkingState, may_move: Callable[[int, int], bool]) -> None:
    """`may_move(source, destination)`: whether the standby assignor allows moves between these two clients."""
    _balance(state, state.standby, state.move_standby, may_move, Role.STANDBY)


def _balance(
    state: WorkingState,
    held: list[set[int]],
    move: Callable[[int, int, int], None],
    may_move: Callable[[int, int], bool],
    role: Role,
) -> None:
    assigned, capacity = state.assigned, state.capacity
    clients = range(len(capacity))
    load_with_one_more = [(assigned[client] + 1.0) / capacity[client] for client in clients]
    moved_any = True
    while moved_any:
        moved_any = False
        lowest = min(load_with_one_more)
        for source in clients:
            if (assigned[source] - 1.0) / capacity[source] < lowest:
                continue
            before = assigned[source]
            for destination in clients:
                if load_with_one_more[destination] > (assigned[source] - 1.0) / capacity[source]:
                    continue
                if destination == source or not may_move(source, destination):
                    continue
                for task in _moves(state, held[source], source, destination):
                    move(source, destination, task)
                    state.log_decision(DecisionKind.BALANCED, task, role, destination, source)
                load_with_one_more[destination] = (assigned[destination] + 1.0) / capacity[destination]
            if assigned[source] != before:
                moved_any = True
                load_with_one_more[source] = (assigned[source] + 1.0) / capacity[source]
                lowest = min(load_with_one_more)


def _moves(state: WorkingState, held: set[int], source: int, destination: int) -> Iterator[int]:
    """The tasks to move, lowest first; the caller moves each before it asks for the next."""
    for task in sorted(held):
        if not _should_move(state, source, destination):
            return
        if not state.holds(destination, task):
            yield task


def _should_move(state: WorkingState, source: int, destination: int) -> bool:
    """Whether moving one task narrows the gap without reversing it.

    Source: `HighAvailabilityTaskAssignor.shouldMoveATask`, in the same doubles.
    """
    skew = state.load(source) - state.load(destination)
    if skew <= 0:
        return False
    skew_after = (state.assigned[source] - 1.0) / state.capacity[source] - (
        state.assigned[destination] + 1.0
    ) / state.capacity[destination]
    return 0 <= skew_after < skew
