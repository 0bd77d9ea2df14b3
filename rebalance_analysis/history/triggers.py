"""Finds the triggers of a rebalance by comparing it with the previous recorded rebalance.

A recording has the members' requests, but not the events that caused the requests. So a trigger is a difference between
two rebalances. Examples are a new process, a task that waited to be revoked, and a deadline that has passed. A
rebalance can have several triggers. If two rebalances do not differ, there are two possible triggers. Either new topics
of the leader have appeared in its metadata, or a member rejoined for a reason that is not recorded.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from assignor.errors import AssignorFault
from assignor.names.short_names import client_id_of, client_of_threads
from assignor.pipeline.snapshot import Member, RebalanceSnapshot
from assignor.protocol.subscription_info import SubscriptionInfo, decode_member
from assignor.recording import dotted_configs
from assignor.types import ProcessId, TaskId
from rebalance_analysis.rerun import Rerun, RerunPlacement


class TriggerKind(StrEnum):
    """The kinds of triggers. `names`, `before` and `after` are fields of `Trigger`."""

    FIRST = "first-round"  # The group has no earlier recorded rebalance.
    JOINED = "joined"  # A process is new. `names`: the members of the process.
    LEFT = "left"  # A process has left the group. `names`: the members of the process.
    # A process has new members. `names`: the new members. `before`: the old process id if the id changed.
    RETURNED = "returned"
    THREADS = "threads"  # A process has more or fewer members. `before`, `after`: the numbers of members.
    TAGS = "tags"  # The client tags of a process changed. `before`, `after`: the old and the new tags.
    # A config or the assignor changed. `names`: the key of the config. `before`, `after`: the old and the new value of
    # the config.
    CONFIG = "config"
    TOPOLOGY = "topology"  # The subtopologies, their topics or their stores changed.
    # The partition count of a source topic changed. `names`: the topic. `before`, `after`: the counts, or None.
    TOPIC = "topic"
    # A follow-up rebalance was due. `names`: the tasks that the previous rebalance held back.
    FOLLOW_UP = "followup-rebalance"
    # Topics appeared in the metadata of the leader. The previous rebalance had created them. `names`: these topics.
    CREATED = "topics-created"
    PROBING = "probing-rebalance"  # The probing deadline has passed. `after`: milliseconds since the deadline.
    REJOINED = "rejoined"  # A member rejoined for a reason that the recording does not show.


class Trigger(NamedTuple):
    kind: TriggerKind
    process: ProcessId | None = None
    names: tuple[str, ...] = ()
    before: str | None = None
    after: str | None = None


class ProcessView(NamedTuple):
    """One process in one rebalance. `members`: maps each member id to the displayed name of the member: the instance
    id, the client id or the member id. `instances`: the group.instance.ids of the members. `name`: the
    `client_of_threads`.
    """

    members: Mapping[str, str]
    instances: frozenset[str]
    threads: int
    tags: Mapping[str, str]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class RebalanceView:
    """The values of one rebalance. The history compares these values with the values of the next rebalance.
    `held_back`: the tasks that wait until their old owner has revoked them. `created`: the topics that the rebalance
    created for the group to read. When these topics appear in the metadata of the leader's consumer, the leader
    requests a new rebalance.
    """

    processes: Mapping[ProcessId, ProcessView]
    snapshot: RebalanceSnapshot | None
    configs: Mapping[str, object]
    followup: bool = False
    probing_at_ms: int | None = None
    held_back: tuple[str, ...] = ()
    created: tuple[str, ...] = ()


def view_of(ran: Rerun, processes: Mapping[ProcessId, ProcessView], held_back: Iterable[TaskId]) -> RebalanceView:
    """Returns the view of a rebalance. The fields `followup` and `probing_at_ms` come from the recorded output. If no
    output is recorded, `followup` and `probing_at_ms` come from the new run.
    """
    if isinstance(ran, RerunPlacement):
        configs = {**dotted_configs(ran.recorded.problem.configs), "assignor": ran.recorded.assignor}
        return RebalanceView(processes, None, configs)
    snapshot = ran.recorded.snapshot
    output = ran.recorded.output or ran.result
    read = {topic for each in snapshot.topology.subtopologies for topic in each.source_topics}
    return RebalanceView(
        processes,
        snapshot,
        {**dotted_configs(snapshot.configs), "assignor": snapshot.assignor},
        output.followup_rebalance,
        output.probing_rebalance_at_ms,
        tuple(str(task) for task in sorted(held_back)),
        tuple(sorted(topic for topic in ran.result.created_topics if topic in read)),
    )


def processes_of(ran: Rerun) -> dict[ProcessId, ProcessView]:
    """Returns the processes of a rebalance, in the order in which the leader received their members. Leaves out members
    whose subscription cannot be decoded.
    """
    if not isinstance(ran, RerunPlacement):
        return processes_in(ran.recorded.snapshot)
    return {
        process: ProcessView(
            {consumer: consumer for consumer in client.consumers}, frozenset(), client.capacity, client.tags
        )
        for process, client in ran.recorded.problem.clients.items()
    }


def triggers(before: RebalanceView | None, now: RebalanceView, now_ms: int | None) -> tuple[Trigger, ...]:
    """Returns the triggers of a rebalance; there is always at least one. In the result, changes of processes are first,
    and changes of configs and topology are next. If the previous rebalance requested this rebalance, this request is
    last.
    """
    if before is None:
        return (Trigger(TriggerKind.FIRST),)
    found = [
        *_process_triggers(before.processes, now.processes),
        *_value_triggers(TriggerKind.CONFIG, before.configs, now.configs),
        *_topology_triggers(before.snapshot, now.snapshot),
    ]
    if before.followup:
        found.append(Trigger(TriggerKind.FOLLOW_UP, names=before.held_back))
    if before.probing_at_ms is not None and now_ms is not None and now_ms >= before.probing_at_ms:
        found.append(Trigger(TriggerKind.PROBING, after=str(now_ms - before.probing_at_ms)))
    if found:
        return tuple(found)
    if before.created and before.snapshot is not None and before.snapshot.leader_process_id is not None:
        return (Trigger(TriggerKind.CREATED, names=before.created),)
    return (Trigger(TriggerKind.REJOINED),)


def _process_triggers(
    before: Mapping[ProcessId, ProcessView], now: Mapping[ProcessId, ProcessView]
) -> Iterator[Trigger]:
    returned: set[ProcessId] = set()
    gone = {instance: process for process, view in before.items() if process not in now for instance in view.instances}
    for process, view in now.items():
        if process in before:
            yield from _changed(process, before[process], view)
            continue
        was = next((gone[instance] for instance in sorted(view.instances) if instance in gone), None)
        if was is None:
            yield Trigger(TriggerKind.JOINED, process, tuple(view.members.values()))
        else:
            returned.add(was)
            yield Trigger(TriggerKind.RETURNED, process, tuple(view.members.values()), before=str(was))
    for process, view in before.items():
        if process not in now and process not in returned:
            yield Trigger(TriggerKind.LEFT, process, tuple(view.members.values()))


def _changed(process: ProcessId, before: ProcessView, now: ProcessView) -> Iterator[Trigger]:
    new = tuple(name for member, name in now.members.items() if member not in before.members)
    if new and before.members.keys() - now.members.keys():
        yield Trigger(TriggerKind.RETURNED, process, new)
    if before.threads != now.threads:
        yield Trigger(TriggerKind.THREADS, process, before=str(before.threads), after=str(now.threads))
    if before.tags != now.tags:
        yield Trigger(TriggerKind.TAGS, process, before=_tags(before.tags), after=_tags(now.tags))


def _value_triggers(kind: TriggerKind, before: Mapping[str, object], now: Mapping[str, object]) -> Iterator[Trigger]:
    for key in sorted({*before, *now}):
        if before.get(key) != now.get(key):
            yield Trigger(kind, names=(key,), before=_text(before.get(key)), after=_text(now.get(key)))


def _topology_triggers(before: RebalanceSnapshot | None, now: RebalanceSnapshot | None) -> Iterator[Trigger]:
    if before is None or now is None:
        return
    if before.topology != now.topology:
        yield Trigger(TriggerKind.TOPOLOGY)
    yield from _value_triggers(TriggerKind.TOPIC, _source_partitions(before), _source_partitions(now))


def _source_partitions(snapshot: RebalanceSnapshot) -> dict[str, int]:
    """Returns the partition counts of the user's own source topics. Leaves out repartition topics, because a rebalance
    creates them. For these created topics, there is the trigger `CREATED`.
    """
    internal = {
        topic.name for subtopology in snapshot.topology.subtopologies for topic in subtopology.repartition_source_topics
    }
    read = {topic for subtopology in snapshot.topology.subtopologies for topic in subtopology.source_topics}
    topics = snapshot.cluster.topics
    return {topic: topics[topic].partitions for topic in read - internal if topic in topics}


def processes_in(snapshot: RebalanceSnapshot) -> dict[ProcessId, ProcessView]:
    """Returns the processes of the members, without members whose subscription cannot be decoded."""
    by_process: dict[ProcessId, list[tuple[str, Member, SubscriptionInfo]]] = {}
    for member_id, member in snapshot.members.items():
        try:
            info = decode_member(member.subscription).info
        except AssignorFault:
            continue
        by_process.setdefault(info.process_id, []).append((member_id, member, info))
    return {process: _process(members) for process, members in by_process.items()}


def _process(members: Sequence[tuple[str, Member, SubscriptionInfo]]) -> ProcessView:
    client = client_of_threads(client_id_of(member_id, member.client_id) for member_id, member, _ in members)
    return ProcessView(
        {member_id: member.group_instance_id or member.client_id or member_id for member_id, member, _ in members},
        frozenset(member.group_instance_id for _, member, _ in members if member.group_instance_id is not None),
        len(members),
        members[0][2].client_tags,
        client,
    )


def _tags(tags: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(tags.items())) or "none"


def _text(value: object) -> str | None:
    return None if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)
