"""Rejoin grace: a member that leaves is away for a while, and its tasks wait for its process to come back.

    Leave -> MemberAway -> the same process joins in time -> MemberReplaced, MemberSubscribed   no rebalance
                        -> its grace is over              -> MemberRemoved, a rebalance         as after a leave

- A member that is away stays in the group with its place and its assignment. Nobody waits for it: not the joins of a
  rebalance, not the fetches after one. Its own requests are refused, because what left does not ask.
- It comes back by a first join with its client id and its process id; a static member as its next incarnation does.
  It goes on with its assignment when the group is stable, no rebalance ran meanwhile, and nothing has changed that a
  rebalance decides by. Otherwise its join starts one.
- A rebalance that runs meanwhile places it as if it held what it was assigned (`subscription_while_away`). A process
  that is away with all its members gets nothing new (`assignor.steering.away`), so tasks of the dead go to the living.
- Who is not expected back gets no grace: members of a group that is drained or was asked to stop, members that an
  operator drains, and those that have no assignment.
- A death is no leave. Sessions and broken connections end as ever, and the tasks fail over at once.
- The deadline is the member's session, so one timer serves both. It is recorded: a restart makes it no longer. When all
  members are away their deadlines end the group as well, and no ghost stays.

Kafka has no counterpart. Nearest are static members (KIP-345), whose absence is not told from their death.
"""

from __future__ import annotations

from coordinator_api.group.events import Join
from coordinator_api.group.image import ClassicGroupMember, GroupImage
from coordinator_api.group.outcome import GroupTransition
from coordinator_api.group.rebalancing import start_rebalance
from coordinator_api.group.records import MemberRemoved
from coordinator_api.group.states import GroupState, RebalanceOutcome, RebalanceReason, RemovalReason
from coordinator_api.group.subscriptions import process_of, static_identity

SHORTEST_GRACE_MS = 1_000
LONGEST_GRACE_MS = 3_600_000


def away_until_ms(image: GroupImage, member: ClassicGroupMember, now_ms: int) -> int | None:
    """Until when the place of this member waits, if it leaves now; None when it does not wait."""
    grace, last = image.levers.rejoin_grace, image.last_rebalance
    asked_to_stop = image.draining or (last is not None and last.end.error_code != 0)
    if grace is None or asked_to_stop or member.last_assignment.assignment is None:
        return None
    drained = image.levers.drained
    if drained and (member.member_id in drained or str(process_of(member.last_join.subscription)) in drained):
        return None
    return now_ms + grace.value_ms


def place_of(image: GroupImage, event: Join) -> ClassicGroupMember | None:
    """The dynamic member that left and that comes back with this first join; None when it is nobody."""
    away = [each for each in image.members.away() if not each.is_static and each.last_join.client_id == event.client_id]
    if not away:
        return None
    process_id = process_of(event.subscription)
    if process_id is None:
        return None
    return next((each for each in away if process_of(each.last_join.subscription) == process_id), None)


def assignment_still_holds(image: GroupImage, event: Join, old: ClassicGroupMember) -> bool:
    """Whether a member that came back can go on with the assignment of its place.

    It cannot when the last rebalance asked for a follow-up (this is its first rejoin) or failed (a join tries again),
    or when a rebalance ran while it was away. Nor can it when the group is settled: tasks wait there for somebody to
    give them up, and who was started anew has given up all that it had.
    """
    if image.state is not GroupState.STABLE or image.last_rebalance is None:
        return False
    if old.is_away and not image.takes_part(old):
        return False
    if image.last_rebalance.end.outcome in (
        RebalanceOutcome.FOLLOW_UP,
        RebalanceOutcome.SETTLED,
        RebalanceOutcome.ERROR,
    ):
        return False
    return static_identity(event.subscription) == static_identity(old.last_join.subscription)


def end_grace(step: GroupTransition) -> None:
    """Nobody is waited for any longer: as if those who are away had left now."""
    away = step.image.members.away()
    for member in away:
        step.emit(MemberRemoved(member.member_id, RemovalReason.GRACE_ENDED))
    if away:
        start_rebalance(step, RebalanceReason.MEMBER_LEFT, "the rejoin grace was ended")
