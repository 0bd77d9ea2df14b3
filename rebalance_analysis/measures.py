"""Computes the measures of one rebalance: moved tasks, records to restore, load of threads, standbys and racks.

Only this module computes the measures that replay, what-if, forecast and sweep show. To find moves, the placement is
compared with the copies that the clients reported. An active task has moved if it was active on a different process
before. A standby has moved if its process had no copy of the task before.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from math import fsum

from assignor.errors import DecodeError
from assignor.protocol.assignment_info import decode_assignment_info
from assignor.protocol.consumer_protocol import decode_assignment
from assignor.task_assignors.base import ClientPlacement, Placement, PlacementClient, PlacementProblem
from assignor.types import JAVA_LONG_MAX, UNKNOWN_OFFSET_SUM, ProcessId, TaskId


@dataclass(frozen=True, slots=True)
class RebalanceMeasures:
    """The measures of one rebalance. `active_moved`: the number of tasks that are active on a different process than
    before. `active_started`: the number of active tasks that were not active before. `standby_moved`: the number of
    standbys on a process that had no copy of the task before. Warm-ups do not count as standbys. `warm_ups`: the number
    of warm-up copies. `records_to_restore`: the sum of the lags of all copies; None if a lag is not known.
    `thread_loads`: the number of copies on each stream thread, sorted. `skew`: the highest minus the lowest number in
    `thread_loads`. `active_skew`: the highest minus the lowest number of active tasks on a thread. `standby_coverage`:
    the number of placed standbys divided by the number of configured standbys (num.standby.replicas for each stateful
    task); None if no standbys are configured. `rack_spread`: the number of racks that have copies of a task, divided by
    the number of racks that could have copies. `rack_spread` is the mean over all stateful tasks that have several
    copies. `rack_spread` is None if a client has no rack, or if no task has several copies. `cross_rack_reads`: the
    number of partitions that a client reads from another rack, because its own rack has no replica; None if a rack is
    not known. `cross_rack_reads` counts the source partitions of active tasks. If standbys are configured,
    `cross_rack_reads` also counts the changelog partitions of standbys, but not of warm-ups.
    """

    tasks: int
    stateful_tasks: int
    clients: int
    threads: int
    active_moved: int
    active_started: int
    standby_moved: int
    warm_ups: int
    records_to_restore: int | None
    thread_loads: tuple[int, ...]
    skew: int
    active_skew: int
    standby_coverage: float | None
    rack_spread: float | None
    cross_rack_reads: int | None = None


def measure(problem: PlacementProblem, placement: Placement) -> RebalanceMeasures:
    """Computes the measures of a placement. `placement`: the placement; every client of the problem must be in it."""
    previous = previous_owners(problem)
    active_moved = active_started = standby_moved = warm_ups = standbys = 0
    for process, placed in placement.clients.items():
        client = problem.clients[process]
        for task in placed.active:
            owners = previous.get(task)
            active_started += owners is None
            active_moved += owners is not None and process not in owners
        standbys += len(placed.standby) - len(placed.warm_ups)
        warm_ups += len(placed.warm_ups)
        had = client.previous_active | client.previous_standby
        standby_moved += len(placed.standby - placed.warm_ups - had)
    loads = _thread_loads(problem, {process: _copies(placed) for process, placed in placement.clients.items()})
    active = _thread_loads(problem, {process: len(placed.active) for process, placed in placement.clients.items()})
    wanted = max(0, problem.configs.num_standby_replicas) * len(problem.stateful_tasks)
    return RebalanceMeasures(
        tasks=len(problem.tasks),
        stateful_tasks=len(problem.stateful_tasks),
        clients=len(problem.clients),
        threads=len(loads),
        active_moved=active_moved,
        active_started=active_started,
        standby_moved=standby_moved,
        warm_ups=warm_ups,
        records_to_restore=records_to_restore(problem, placement),
        thread_loads=loads,
        skew=loads[-1] - loads[0] if loads else 0,
        active_skew=active[-1] - active[0] if active else 0,
        standby_coverage=standbys / wanted if wanted else None,
        rack_spread=_rack_spread(problem, placement),
        cross_rack_reads=cross_rack_reads(problem, placement),
    )


def previous_owners(problem: PlacementProblem) -> dict[TaskId, list[ProcessId]]:
    """Returns, for each task, the processes that reported it as active. If the reports contradict each other, a task
    has several processes.
    """
    owners: dict[TaskId, list[ProcessId]] = {}
    for process, client in problem.clients.items():
        for task in client.previous_active:
            owners.setdefault(task, []).append(process)
    return owners


def moves_owned(problem: PlacementProblem, placement: Placement) -> bool:
    """True if the placement moves an active task or a standby away from the client that reported it. For each task, at
    most num.standby.replicas reported standbys count. If more standbys are reported, the standbys with the smallest
    lags count. Any other reported standby may be a closed task. A client also reports a closed task as a standby if the
    task has a state directory.
    """
    owners = previous_owners(problem)
    for process, placed in placement.clients.items():
        if any(task in owners and process not in owners[task] for task in placed.active):
            return True
    return _moves_a_standby(problem, placement)


def places_ownerless(problem: PlacementProblem, placement: Placement) -> bool:
    """True if the placement has an active task that no client reported as active."""
    owners = previous_owners(problem)
    return any(task not in owners for placed in placement.clients.values() for task in placed.active)


def _moves_a_standby(problem: PlacementProblem, placement: Placement) -> bool:
    new: set[TaskId] = set()
    for process, placed in placement.clients.items():
        client = problem.clients[process]
        new |= placed.standby - placed.warm_ups - client.previous_active - client.previous_standby
    if not new:
        return False
    holders: dict[TaskId, list[tuple[int, ProcessId]]] = {}
    for process, client in problem.clients.items():
        for task in client.previous_standby & new:
            lag = client.lags.lag_for(task) if task in client.lags else UNKNOWN_OFFSET_SUM
            holders.setdefault(task, []).append((JAVA_LONG_MAX if lag == UNKNOWN_OFFSET_SUM else lag, process))
    for task, found in holders.items():
        for _, process in sorted(found)[: max(0, problem.configs.num_standby_replicas)]:
            placed = placement.clients[process]
            if task not in placed.standby and task not in placed.active:
                return True
    return False


def records_to_restore(problem: PlacementProblem, placement: Placement) -> int | None:
    """Returns the sum of the lags of all copies of stateful tasks; None if a lag is not known."""
    per_process = records_to_restore_by_process(problem, placement)
    return None if per_process is None else sum(per_process.values())


def records_to_restore_by_process(problem: PlacementProblem, placement: Placement) -> dict[ProcessId, int] | None:
    """Returns, for each process, the number of records that it has to read to catch up; None if a lag is not known."""
    stateful = frozenset(problem.stateful_tasks)
    records: dict[ProcessId, int] = {}
    for process, placed in placement.clients.items():
        lags = problem.clients[process].lags
        total = 0
        for task in chain(placed.active, placed.standby):
            if task not in stateful or task not in lags:
                continue
            lag = lags.lag_for(task)
            if lag == UNKNOWN_OFFSET_SUM:
                return None
            total += max(lag, 0)
        records[process] = total
    return records


def recorded_placement(problem: PlacementProblem, assignments: Mapping[str, bytes]) -> Placement | None:
    """Returns the placement that recorded assignment bytes describe. Returns None if the bytes cannot be decoded, or if
    a member belongs to no client of the problem. In assignment bytes, a warm-up looks like a standby. A task that is
    held back has no active copy.
    """
    process_of = {consumer: process for process, client in problem.clients.items() for consumer in client.consumers}
    active: dict[ProcessId, set[TaskId]] = {process: set() for process in problem.clients}
    standby: dict[ProcessId, set[TaskId]] = {process: set() for process in problem.clients}
    for member_id, raw in assignments.items():
        process = process_of.get(member_id)
        if process is None:
            return None
        try:
            info = decode_assignment_info(decode_assignment(raw).user_data or b"")
        except DecodeError:
            return None
        active[process].update(info.active_tasks)
        standby[process].update(info.standby_tasks)
    return Placement(
        False,
        {
            process: ClientPlacement(frozenset(active[process]), frozenset(standby[process] - active[process]))
            for process in problem.clients
        },
    )


def _copies(placed: ClientPlacement) -> int:
    return len(placed.active) + len(placed.standby)


def _thread_loads(problem: PlacementProblem, copies: Mapping[ProcessId, int]) -> tuple[int, ...]:
    """Returns the number of copies on each thread, sorted. Each process spreads its copies evenly over its threads, as
    in step 4 of `assignor.pipeline`.
    """
    loads: list[int] = []
    for process, client in problem.clients.items():
        each, more = divmod(copies.get(process, 0), client.capacity)
        loads += [each + 1] * more + [each] * (client.capacity - more)
    return tuple(sorted(loads))


def _rack_spread(problem: PlacementProblem, placement: Placement) -> float | None:
    racks = {
        process: _rack(client, problem.configs.rack_aware_assignment_tags)
        for process, client in problem.clients.items()
    }
    known = {rack for rack in racks.values() if rack is not None}
    if not known or None in racks.values():
        return None
    by_task: dict[TaskId, list[tuple[str, ...]]] = {}
    stateful = frozenset(problem.stateful_tasks)
    for process, placed in placement.clients.items():
        rack = racks[process]
        assert rack is not None
        for task in chain(placed.active & stateful, placed.standby):
            by_task.setdefault(task, []).append(rack)
    spreads = [len(set(on)) / min(len(on), len(known)) for on in by_task.values() if len(on) > 1]
    return _mean(spreads)


def cross_rack_reads(problem: PlacementProblem, placement: Placement) -> int | None:
    """Computes the measure `RebalanceMeasures.cross_rack_reads`."""
    information = problem.racks
    if information is None:
        return None
    counts_standbys = problem.configs.num_standby_replicas > 0
    reads = 0
    for process, placed in placement.clients.items():
        rack = problem.clients[process].rack
        standbys = placed.standby - placed.warm_ups if counts_standbys else ()
        for tasks, partitions_of in (
            (placed.active, information.task_partitions),
            (standbys, information.changelog_partitions),
        ):
            for partition in chain.from_iterable(partitions_of.get(task, ()) for task in tasks):
                racks = information.racks_of(partition)
                if rack is None or racks is None:
                    return None
                reads += rack not in racks
    return reads


def _rack(client: PlacementClient, tags: Iterable[str]) -> tuple[str, ...] | None:
    """Returns the rack of a client. If rack-aware client tags are configured, the rack consists of the values of these
    tags. Without such tags, the client's rack is the rack of its consumer. Returns None if a value is missing.
    """
    values = tuple(client.tags.get(tag) for tag in tags) or (client.rack,)
    known = tuple(value for value in values if value is not None)
    return known if len(known) == len(values) else None


def _mean(values: list[float]) -> float | None:
    """Returns the mean of `values`; None if `values` is empty. The values come from a set, so their order is arbitrary.
    `fsum` rounds only once, so the mean does not depend on the order.
    """
    return fsum(values) / len(values) if values else None
