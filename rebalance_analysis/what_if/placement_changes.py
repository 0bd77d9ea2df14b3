"""Applies changes to a placement problem. A placement problem has clients and lags, but no topics and no subscription
bytes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from assignor.clients.client_state import TaskLags
from assignor.configs import RACK_AWARE_ASSIGNMENT_STRATEGY
from assignor.errors import InputError
from assignor.java.hash_codes import process_hash
from assignor.java.order import hash_set_order
from assignor.task_assignors.base import PlacementClient, PlacementProblem
from assignor.types import ProcessId, TaskId
from rebalance_analysis.what_if.changes import AddedInstances, Changes
from rebalance_analysis.what_if.lag_changes import client_with_lags, read_lags
from rebalance_analysis.what_if.process_names import (
    by_process,
    new_instances,
    new_members,
    removed_processes,
    tags_by_process,
)

_NAMESPACE = "placement"

Clients = dict[ProcessId, PlacementClient]


def changed_problem(problem: PlacementProblem, changes: Changes) -> PlacementProblem:
    """Applies changes to a placement problem. Changes of the assignor and of configs are not applied here. Raises
    InputError if a change cannot be applied.
    """
    if changes.partitions or changes.topology is not None:
        field = "partitions" if changes.partitions else "topology"
        raise InputError("a placement problem has no topics; change a recorded rebalance (rebalance/1)", field)
    if problem.configs.rack_aware and problem.racks is None:
        reason = f"{RACK_AWARE_ASSIGNMENT_STRATEGY} needs task_partitions, changelog_partitions and partition_racks"
        raise InputError(f"{reason}, which this placement problem does not have", "configs")
    removed = removed_processes(changes.remove, _names(problem.clients))
    clients = {process: client for process, client in problem.clients.items() if process not in removed}
    for process, threads in by_process(changes.threads, _names(clients), "threads").items():
        clients[process] = _with_threads(clients[process], threads)
    for process, own in tags_by_process(changes.tags, _names(clients)).items():
        clients[process] = replace(clients[process], tags={**clients[process].tags, **own})
    clients |= {client.process_id: client for client in _added(problem, clients, changes.add_instances)}
    if changes.lags:
        lags = read_lags(changes.lags, _names(clients), problem.stateful_tasks)
        clients = {each: client_with_lags(client, lags, problem.stateful_tasks) for each, client in clients.items()}
    return replace(problem, clients=_in_order(clients, problem.clients))


def _names(clients: Mapping[ProcessId, PlacementClient]) -> dict[ProcessId, tuple[str, ...]]:
    return {process: client.consumers for process, client in clients.items()}


def _with_threads(client: PlacementClient, threads: int) -> PlacementClient:
    consumers = client.consumers[:threads]
    if consumers and threads > len(consumers):
        new = new_members(client.process_id, threads - len(consumers), str(client.process_id), frozenset(consumers))
        consumers += tuple(member_id for _, member_id in new)
    return replace(client, capacity=threads, consumers=consumers)


def _added(problem: PlacementProblem, clients: Clients, asked: Iterable[AddedInstances]) -> Iterator[PlacementClient]:
    """Yields the clients of added instances. A new client has to restore each task completely. So the lag of a new
    client is, for each task, the size of the task's changelog. The best estimate of this size is the largest lag of a
    client.
    """
    furthest = _furthest_lags(problem)
    racks = [client.rack for client in clients.values()]
    has_consumers = any(client.consumers for client in problem.clients.values())
    for added, process, rack in new_instances(asked, _NAMESPACE, frozenset(clients), racks):
        new = new_members(process, added.threads, str(process), frozenset()) if has_consumers else ()
        consumers = tuple(member_id for _, member_id in new)
        yield PlacementClient(process, added.threads, TaskLags(furthest), consumers, tags=added.tags, rack=rack)


def _furthest_lags(problem: PlacementProblem) -> Mapping[TaskId, int]:
    furthest = dict.fromkeys(problem.stateful_tasks, 0)
    for client in problem.clients.values():
        for task in furthest:
            if task in client.lags:
                furthest[task] = max(furthest[task], client.lags.lag_for(task))
    return furthest


def _in_order(clients: Clients, recorded: Iterable[ProcessId]) -> Clients:
    """Returns the clients in order. If the recorded clients are in the Java hash order of the leader, all clients are
    sorted in this order. If the recorded clients have another order, new clients are last.
    """
    before = list(recorded)
    if clients.keys() == set(before) or hash_set_order(before, process_hash) != before:
        return clients
    return {process: clients[process] for process in hash_set_order(clients, process_hash)}
