"""Handles the commands of operators, which declare, drain or delete a group, or set its levers.

This file applies the immediate effects of each command. Other files contain the rules of the levers: `holding` for the
hold, and `joining` for the rejoin grace. The file `rebalancing` contains the rules of promotion, which is an early
probing rebalance. An operator drains an instance or a member before stopping it. The tasks move to other instances
without a pause.

- When the operator sets a drain, a rebalance starts. The field `RunRebalance.steering` names the drained processes and
  members (`assignor.task_assignors.steering`).
- When the last member of the instance is gone, the drain ends.
- When the operator ends a drain, a rebalance starts.

A task may wait for its warm-up. The task moves as soon as all warm-ups have caught up (`rebalancing.promote`). At the
probing deadline, the task moves in any case. A restart of an instance ends its drain, because the process id changes.
Drains are recorded, so a restart of the coordinator does not end a drain. Kafka has no drains. In Kafka, the tasks of a
stopped instance are not processed until other instances have restored them.

Source: `GroupMetadataManager.validateDeleteGroup` for the deletion; the other commands of this file do not exist in
Kafka.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from assignor.recording import as_topology
from assignor.topology.group_topology import GroupTopology, Subtopology
from coordinator_api.group import events, outcome, records
from coordinator_api.group.group_levers import Lever, LeverName, OperatorDecision
from coordinator_api.group.holding import carry_out_when_held, decide_held, end_hold_when_over
from coordinator_api.group.image import DefinitionOrigin, GroupImage
from coordinator_api.group.joining import LONGEST_GRACE_MS, SHORTEST_GRACE_MS, end_grace
from coordinator_api.group.rebalancing import promote, start_rebalance
from coordinator_api.group.states import GroupState, RebalanceOutcome, RebalanceReason, RejectionCode
from coordinator_api.group.subscriptions import process_of

MOST_INSTANCES_NAMED = 10
MOST_DIFFERENCES_NAMED = 4
_MOST_NAMED = 5
_SERVERS = "bootstrap.servers"


def declare(step: outcome.GroupTransition, event: events.DeclareGroup) -> outcome.Response:
    """Store the definition. While the group has members, a changed definition starts a rebalance. An unchanged
    definition starts a rebalance only if the last rebalance failed. While the group has members, a definition with
    another topology or cluster is refused. An event with `replaces_topology` is not refused for its topology or
    cluster.
    """
    image = step.image
    if image.state is GroupState.DEAD:
        return outcome.GROUP_DELETED
    created = image.input_json is None
    changed = event.input_json != image.input_json
    replaced_topology = False
    if image.members and changed and image.input_json is not None:
        differing = differences(image.input_json, event.input_json)
        if differing and not event.replaces_topology:
            return _refuse_another_application(len(image.members), differing)
        replaced_topology = bool(differing)
    if changed and event.no_room is not None:
        return outcome.Rejected(RejectionCode.POLICY_VIOLATION, event.no_room)
    if changed:
        origin = DefinitionOrigin(event.declared_by, step.now_ms)
        step.emit(records.DefinitionChanged(image.revision + 1, event.input_json, origin))
    if image.draining:
        step.emit(records.DrainChanged(False))
    retried = image.present_end is not None and image.present_end.outcome is RebalanceOutcome.ERROR
    if image.members and (changed or retried):
        start_rebalance(step, RebalanceReason.DEFINITION_CHANGED)
    return outcome.Declared(step.image.revision, created, replaced_topology)


def drain(step: outcome.GroupTransition) -> outcome.Response:
    """Drain the group: from now on the answers to heartbeats ask members to stop."""
    if step.image.state is GroupState.DEAD:
        return outcome.GROUP_DELETED
    if not step.image.draining:
        step.emit(records.DrainChanged(True))
        end_grace(step)  # departed members do not come back to a drained group, so their grace ends
    return outcome.Accepted()


def delete(step: outcome.GroupTransition) -> outcome.Response:
    """Delete the group. The deletion of a group with members is refused. If the leader of a group is outside this
    service, the group may be deleted with its members.
    """
    image = step.image
    if image.state is GroupState.DEAD:
        return outcome.GROUP_DELETED
    if image.state is not GroupState.EMPTY and image.led_by is None:
        return outcome.Rejected(
            RejectionCode.NON_EMPTY_GROUP,
            f"the group has {len(image.members)} members and is {image.state}; drain it first",
        )
    step.emit(records.GroupDeleted())
    return outcome.Accepted()


def apply_lever_command(step: outcome.GroupTransition, event: events.LeverCommand) -> outcome.Response:
    if step.image.state is GroupState.DEAD or step.image.input_json is None:
        return outcome.GROUP_NOT_DECLARED
    match event:
        case events.RequestRebalance():
            return _request_rebalance(step, event)
        case events.SetLever():
            return _set_lever(step, event)
        case events.DecideHeldRebalance():
            return decide_held(step, event)
        case events.WarmUpsCaughtUp():
            return promote(step, event)
        case events.SetInstanceDrain():
            return _drain_instance(step, event) if event.is_on else _end_instance_drain(step, event)


def _request_rebalance(step: outcome.GroupTransition, event: events.RequestRebalance) -> outcome.Response:
    """Start a rebalance. If a rebalance is being prepared already, the request starts no second rebalance. If a
    rebalance is being computed, the new rebalance replaces it.
    """
    if not step.image.members:
        return outcome.Rejected(
            RejectionCode.UNKNOWN_MEMBER_ID,
            "the group has no members, so there is nothing to rebalance; the first instance that joins starts one",
        )
    start_rebalance(step, RebalanceReason.OPERATOR_REQUESTED, event.reason)
    return outcome.Accepted()


def _set_lever(step: outcome.GroupTransition, event: events.SetLever) -> outcome.Response:
    """Set a lever or switch it off. A second request to set promotion or a pause changes nothing, so the first decision
    stays recorded. A second request to set a hold or a rejoin grace replaces the first request. The new time limit of a
    hold also applies to a rebalance that is already held.

    A new rejoin grace does not change the deadline of members that are already away. Switching the rejoin grace off
    removes the absent members. The answers to heartbeats tell members whether the group is paused.
    """
    is_hold, is_grace = event.name is LeverName.HOLD, event.name is LeverName.REJOIN_GRACE
    if is_grace and event.is_on and not SHORTEST_GRACE_MS <= event.value_ms <= LONGEST_GRACE_MS:
        return outcome.Rejected(
            RejectionCode.INVALID_REQUEST,
            f"grace_ms must be from {SHORTEST_GRACE_MS} to {LONGEST_GRACE_MS}, not {event.value_ms}",
        )
    decision = OperatorDecision(event.by, step.now_ms, event.reason)
    if is_hold and not event.is_on:
        carry_out_when_held(step, decision)
    was_on = any(lever.name is event.name for lever in step.image.levers.all_set())
    if event.is_on is not was_on or (event.is_on and (is_hold or is_grace)):
        step.emit(records.LeverChanged(Lever(event.name, decision, event.value_ms), event.is_on))
    if is_hold:
        end_hold_when_over(step)
    elif is_grace and not event.is_on:
        end_grace(step)
    return outcome.Accepted()


def _drain_instance(step: outcome.GroupTransition, event: events.SetInstanceDrain) -> outcome.Response:
    """Drain an instance or a member. A second request to drain the same target changes nothing."""
    image = step.image
    process_id = event.process_id
    if event.member_id is not None:
        process_id = _process_of_member(image, event.member_id)
        if process_id is None:
            return _unknown(image, f"no member {event.member_id} whose instance is known")
    elif process_id not in _processes(image):
        return _unknown(image, f"no instance {process_id}")
    assert process_id is not None
    decision = OperatorDecision(event.by, step.now_ms, event.reason)
    drain = Lever(LeverName.DRAIN, decision, process_id=process_id, member_id=event.member_id)
    if drain.target not in image.levers.drained:
        step.emit(records.LeverChanged(drain, is_on=True))
        why = f": {event.reason}" if event.reason else ""
        what = "member" if event.member_id else "instance"
        start_rebalance(step, RebalanceReason.INSTANCE_DRAINED, f"{what} {drain.target} is drained{why}")
    return outcome.Accepted()


def _end_instance_drain(step: outcome.GroupTransition, event: events.SetInstanceDrain) -> outcome.Response:
    """End the drain of an instance or a member, if it is being drained."""
    target = event.member_id or event.process_id or ""
    if target in step.image.levers.drained:
        _end_drain(step, target)
        if step.image.members:
            start_rebalance(step, RebalanceReason.INSTANCE_DRAINED, f"the drain of {target} was ended")
    return outcome.Accepted()


def end_drains_of_gone(step: outcome.GroupTransition, before: GroupImage) -> None:
    """End the drain of each instance or member that is no longer in the group. While any instance or member is drained,
    call `end_drains_of_gone` after each event.

    If the drained member was removed, a rebalance has already begun. The restart of a drained static member begins no
    rebalance, so `end_drains_of_gone` starts one. In a rebalance after its drain, a member may get tasks again.
    `before`: the state before the event.
    """
    if not any(_may_leave_instance(record, before) for record in step.records):
        return
    gone = drains_of_gone(step.image)
    for target in gone:
        _end_drain(step, target)
    if gone and step.image.state is GroupState.STABLE:
        started = f"the drain of {', '.join(gone)} has ended, because it was started again"
        start_rebalance(step, RebalanceReason.INSTANCE_DRAINED, started)


def _may_leave_instance(record: records.CoordinatorRecord, before: GroupImage) -> bool:
    """Returns whether this record may remove the last member of an instance."""
    match record:
        case records.MemberRemoved() | records.MemberReplaced():
            return True
        case records.MemberSubscribed(member_id, join):
            known = before.members.get(member_id)
            return known is not None and process_of(known.last_join.subscription) != process_of(join.subscription)
    return False


def _end_drain(step: outcome.GroupTransition, target: str) -> None:
    by_nobody = OperatorDecision(None, step.now_ms)
    step.emit(records.LeverChanged(replace(step.image.levers.drained[target], decision=by_nobody), is_on=False))


def drains_of_gone(image: GroupImage) -> list[str]:
    """Returns the drained instances and members that are no longer in the group."""
    if not image.levers.drained:
        return []
    processes = _processes(image)
    return [
        target
        for target, each in sorted(image.levers.drained.items())
        if (target not in image.members if each.member_id is not None else target not in processes)
    ]


def _processes(image: GroupImage) -> set[str | None]:
    return {_process_of_member(image, member_id) for member_id in image.members} - {None}


def _process_of_member(image: GroupImage, member_id: str) -> str | None:
    member = image.members.get(member_id)
    process_id = None if member is None else process_of(member.last_join.subscription)
    return None if process_id is None else str(process_id)


def _unknown(image: GroupImage, what: str) -> outcome.Rejected:
    known = sorted(str(process) for process in _processes(image))
    named = shortened(known, MOST_INSTANCES_NAMED) or "none"
    return outcome.Rejected(
        RejectionCode.UNKNOWN_MEMBER_ID, f"the group has {what}; its instances, by process id: {named}"
    )


def _refuse_another_application(members: int, differing: Sequence[str]) -> outcome.Rejected:
    """Returns the refusal for a definition that has a different topology. The present members could not start the tasks
    of a different topology.
    """
    whose = "1 member, which runs" if members == 1 else f"{members} members, which run"
    return outcome.Rejected(
        RejectionCode.INCONSISTENT_GROUP_PROTOCOL,
        f"it has {whose} another topology: {shortened(differing, MOST_DIFFERENCES_NAMED, '; ')}. "
        "If this is another application, give it another application.id. If it is the next version, drain the group "
        "first, or replace the topology under living members (PUT with ?replace=true, `assignor workers run "
        "--replace`), which ends those that cannot run it",
    )


def differences(running: str, declared: str) -> list[str]:
    """Returns a clause for each difference that running members could not handle. `running`, `declared`: the two
    definitions, each in the form of `DeclareGroup.input_json`.

    Running members cannot handle a different topology, because a member can only start tasks of its own topology.
    Running members cannot handle a different cluster, because a member uses the cluster that it was started with. The
    assignor, the configs and the content of a described cluster may change while members run.

    If two lists of brokers contain the same broker, they name the same Kafka cluster. The lists may differ because
    brokers were added.
    """
    before, after = json.loads(running), json.loads(declared)
    return [*_of_clusters(before["cluster"], after["cluster"]), *_of_topologies(before["topology"], after["topology"])]


def shortened(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """Returns a text with the first names and the number of the omitted names. `most`: the largest number of names in
    the text.
    """
    more = len(names) - most
    return separator.join(names[:most]) + (f"{separator}and {more} more" if more > 0 else "")


def _of_clusters(running: Mapping[str, str], declared: Mapping[str, str]) -> Iterator[str]:
    """Yields the difference between the clusters if both definitions name an address. A definition without an address
    either describes a cluster, or names only a provider. Members never read the description of a cluster. A provider
    without an address stands for the service's only cluster.
    """
    before, after = running.get(_SERVERS), declared.get(_SERVERS)
    if before is None or after is None or not _brokers(before).isdisjoint(_brokers(after)):
        return
    yield f"it reads and writes {before}, the new one {after}"


def _brokers(address: str) -> set[str]:
    return {each.strip() for each in address.replace(";", ",").split(",")}


def _of_topologies(running: object, declared: object) -> Iterator[str]:
    if running == declared:
        return
    before, after = as_topology(running, "topology"), as_topology(declared, "topology")
    if before == after:
        return
    found = list(_of_subtopologies(before, after))
    yield from found or ["the same topics are grouped or ordered in another way"]


def _of_subtopologies(before: GroupTopology, after: GroupTopology) -> Iterator[str]:
    old = {each.id: each for each in before.subtopologies}
    new = {each.id: each for each in after.subtopologies}
    for number in sorted(old.keys() - new.keys()):
        yield f"{_subtopology_text(old[number])} is not in the new one"
    for number in sorted(new.keys() - old.keys()):
        yield f"{_subtopology_text(new[number])} is only in the new one"
    for number in sorted(old.keys() & new.keys()):
        yield from _of_subtopology(old[number], new[number])


def _of_subtopology(old: Subtopology, new: Subtopology) -> Iterator[str]:
    name = f"subtopology {old.id}"
    yield from _of_names(name, ("reads", "read"), old.reads, new.reads)
    yield from _of_names(name, ("keeps", "keep"), _stores(old), _stores(new))
    yield from _of_names(name, ("writes to", "write to"), _sinks(old), _sinks(new))
    stores = {store.name: store for store in new.stores}
    for store in old.stores:
        if store.name in stores and store != stores[store.name]:
            yield f"store {store.name} has another changelog in the new one"
    partitions = {topic.name: topic.partitions for topic in new.repartition_source_topics}
    for topic in old.repartition_source_topics:
        if topic.name in partitions and topic.partitions != partitions[topic.name]:
            yield f"repartition topic {topic.name} is to have another number of partitions in the new one"


def _of_names(whose: str, verb: tuple[str, str], old: Iterable[str], new: Iterable[str]) -> Iterator[str]:
    """`verb`: the third person and the plain form of a verb, such as ("reads", "read")."""
    does, do = verb
    gone, added = sorted(set(old) - set(new)), sorted(set(new) - set(old))
    if gone and added:
        yield f"{whose} {does} {_names(gone)}, in the new one {_names(added)}"
    elif gone:
        yield f"{whose} {does} {_names(gone)}, in the new one it does not"
    elif added:
        yield f"{whose} does not {do} {_names(added)}, in the new one it does"


def _subtopology_text(subtopology: Subtopology) -> str:
    stores = _stores(subtopology)
    keeps = f", keeps {_names(stores)}" if stores else ""
    return f"subtopology {subtopology.id} (reads {_names(subtopology.reads)}{keeps})"


def _stores(subtopology: Subtopology) -> list[str]:
    return [store.name for store in subtopology.stores]


def _sinks(subtopology: Subtopology) -> tuple[str, ...]:
    return (*subtopology.sink_topics, *subtopology.repartition_sink_topics)


def _names(names: Sequence[str]) -> str:
    return shortened(names, _MOST_NAMED)
