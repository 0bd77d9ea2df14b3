"""Draining an instance, or one of its members: its tasks go to others without a pause, so that it can be stopped.

    DrainInstance -> the drain is set, a rebalance   `RunRebalance.steering` names whom it empties (`assignor.steering`)
    the last member of the instance is gone          -> the drain ends
    EndInstanceDrain -> the drain ends, a rebalance

A task that waits for a warm-up is handed over as soon as the warm-ups have caught up (`rebalancing.promote`), not at
the probing deadline alone. An instance that is started again has another process id, so its drain has ended. Drains are
recorded: a restart of the coordinator ends none.

Kafka has no counterpart: an instance there is stopped with its tasks, which stand still until others have restored
them.
"""

from __future__ import annotations

from dataclasses import replace

from coordinator_api.group.events import DrainInstance, EndInstanceDrain
from coordinator_api.group.image import GroupImage
from coordinator_api.group.levers import Lever, LeverName, OperatorDecision
from coordinator_api.group.outcome import Accepted, GroupTransition, Rejected, Response
from coordinator_api.group.rebalancing import start_rebalance
from coordinator_api.group.records import LeverChanged, MemberRemoved, MemberReplaced
from coordinator_api.group.states import GroupState, RebalanceReason, RejectionCode
from coordinator_api.group.subscriptions import process_of

MOST_INSTANCES_NAMED = 10


def drain_instance(step: GroupTransition, event: DrainInstance) -> Response:
    """A second request changes nothing: the decision of the first one stays."""
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
        step.emit(LeverChanged(drain, is_on=True))
        why = f": {event.reason}" if event.reason else ""
        what = "member" if event.member_id else "instance"
        start_rebalance(step, RebalanceReason.INSTANCE_DRAINED, f"{what} {drain.target} is drained{why}")
    return Accepted()


def end_instance_drain(step: GroupTransition, event: EndInstanceDrain) -> Response:
    """Nothing happens to one that is not drained."""
    target = event.member_id or event.process_id or ""
    if target in step.image.levers.drained:
        _end_drain(step, target)
        if step.image.members:
            start_rebalance(step, RebalanceReason.INSTANCE_DRAINED, f"the drain of {target} was ended")
    return Accepted()


def end_drains_of_gone(step: GroupTransition) -> None:
    """After any event, while anything is drained: an instance or a member that is gone has been drained.

    A removal has begun a rebalance. A static member that was started again has not, and may have tasks from now on.
    """
    if not any(isinstance(record, MemberRemoved | MemberReplaced) for record in step.records):
        return
    gone = drains_of_gone(step.image)
    for target in gone:
        _end_drain(step, target)
    if gone and step.image.state is GroupState.STABLE:
        started = f"the drain of {', '.join(gone)} has ended, because it was started again"
        start_rebalance(step, RebalanceReason.INSTANCE_DRAINED, started)


def _end_drain(step: GroupTransition, target: str) -> None:
    by_nobody = OperatorDecision(None, step.now_ms)
    step.emit(LeverChanged(replace(step.image.levers.drained[target], decision=by_nobody), is_on=False))


def drains_of_gone(image: GroupImage) -> list[str]:
    """Targets that have no member."""
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


def _unknown(image: GroupImage, what: str) -> Rejected:
    known = sorted(str(process) for process in _processes(image))
    named = ", ".join(known[:MOST_INSTANCES_NAMED]) or "none"
    more = f" and {len(known) - MOST_INSTANCES_NAMED} more" if len(known) > MOST_INSTANCES_NAMED else ""
    return Rejected(
        RejectionCode.UNKNOWN_MEMBER_ID, f"the group has {what}; its instances, by process id: {named}{more}"
    )
