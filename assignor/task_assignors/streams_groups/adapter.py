"""Runs the sticky assignor of streams groups as a task assignor of the pipeline, so that it can be compared with other
assignors.

The members of a recorded streams group are used as they are. In a group that is not a recorded streams group, every
consumer counts as a member. The previous active tasks of this member are the tasks that the consumer owns. The previous
standbys of the member are all other tasks that the consumer reported. If only the process of a previous task is known,
a member of this process counts as the previous owner. If there are several tasks of this kind, the members of the
process take turns.

A group of consumers differs from a streams group in three points. The previous tasks of a member come from its
subscription, while a broker uses the member's previous target assignment. In the subscription, a task with state on the
member's disk counts as a standby. The offset of a task is the highest offset minus the lag. The resulting offsets have
the same order as the offsets that members report to a broker. The leader spreads a process's tasks over its threads
again (step 4 of the pipeline). On a broker, the assignment to a member is final. `num.standby.replicas` comes from the
members, not from the group's config on the broker.
"""

from collections.abc import Iterator
from itertools import cycle

from assignor.errors import InputError
from assignor.task_assignors.base import ClientPlacement, MemberSpec, Placement, PlacementClient, PlacementProblem
from assignor.task_assignors.decisions import DecisionLog
from assignor.task_assignors.streams_groups.member_sticky import StreamsGroupPlacement
from assignor.types import JAVA_LONG_MAX, UNKNOWN_OFFSET_SUM, TaskId


class StreamsGroupStickyTaskAssignor:
    """Keeps tasks with their members as long as the members' quotas allow it. StreamsGroupStickyTaskAssignor ignores
    lags and racks.
    """

    name = "StreamsGroupStickyTaskAssignor"

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        """Returns the placement. Raises InputError if there are no clients, or if a client has no threads."""
        if not problem.clients:
            raise InputError("a placement needs at least one client", "clients")
        specs = {member: spec for client in problem.clients.values() for member, spec in _members(client)}
        process_of = {str(process): process for process in problem.clients}
        configs = problem.configs
        replicas, rules = max(0, configs.num_standby_replicas), configs.kafka_version.rules
        placing = StreamsGroupPlacement(specs, problem.tasks, problem.stateful_tasks, replicas, rules)
        active: dict[str, set[TaskId]] = {process: set() for process in process_of}
        standby: dict[str, set[TaskId]] = {process: set() for process in process_of}
        for member, assignment in placing.solved().items():
            active[specs[member].process_id] |= assignment.active
            standby[specs[member].process_id] |= assignment.standby
        for each in placing.decisions:
            chosen = None if each.consumer is None else process_of[specs[each.consumer].process_id]
            log.append(each._replace(process=chosen, consumer=None))
        return Placement(
            False,
            {
                process: ClientPlacement(frozenset(active[name]), frozenset(standby[name]))
                for name, process in process_of.items()
            },
        )


def _members(client: PlacementClient) -> Iterator[tuple[str, MemberSpec]]:
    """Yields the members of a client. Raises InputError for a client without threads."""
    if client.capacity < 1:
        raise InputError(f"capacity must be at least 1, not {client.capacity}", f"clients.{client.process_id}")
    if client.members:
        yield from ((name, client.members.get(name, MemberSpec(str(client.process_id)))) for name in client.consumers)
        return
    names = client.consumers or tuple([f"{client.process_id}-{number}" for number in range(1, client.capacity + 1)])
    reporter = {task: consumer for consumer, tasks in client.reported_tasks.items() for task in tasks}
    active: dict[str, set[TaskId]] = {name: set() for name in names}
    standby: dict[str, set[TaskId]] = {name: set() for name in names}
    in_turn = cycle(names)
    for tasks, of_member, known in (
        (client.previous_active, active, {**reporter, **client.active_owners}),
        (client.previous_standby, standby, reporter),
    ):
        for task in sorted(tasks):
            member = known.get(task)
            of_member[member if member in of_member else next(in_turn)].add(task)
    for name in names:
        offsets = {task: JAVA_LONG_MAX - lag for task in standby[name] if (lag := _known_lag(client, task)) is not None}
        yield name, MemberSpec(str(client.process_id), frozenset(active[name]), frozenset(standby[name]), offsets)


def _known_lag(client: PlacementClient, task: TaskId) -> int | None:
    lag = client.lags.lag_for(task) if task in client.lags else UNKNOWN_OFFSET_SUM
    return lag if lag >= 0 else None
