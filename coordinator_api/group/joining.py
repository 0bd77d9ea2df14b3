"""Members join, rejoin, leave, and are removed when their sessions end.

A join is answered as soon as it is committed. The answer to a join never waits for the rebalance. The answers to
heartbeats tell members to rejoin. Members fetch their assignment when it is computed. A member repeats a join if the
answer was lost. A repeated join has the same bytes, concerns the same rebalance, and must not change anything. To force
a rebalance, a member changes the unique field of its subscription. Source: `classicGroupJoin...`,
`updateStaticMemberThenRebalanceOrCompleteJoin` and `classicGroupLeaveToClassicGroup`,
`expireClassicGroupMemberHeartbeat`, `expirePendingSync` in `GroupMetadataManager`; KIP-345 for static members.

If an operator has set a rejoin grace, a departed member is away until its grace ends. During the grace, the group
reserves the member's tasks for the member's process:

- When the member leaves, the group emits the record `MemberAway`.
- If the same process joins in time, the group emits `MemberReplaced` and `MemberSubscribed`, and no rebalance starts.
- If the grace ends first, the group emits `MemberRemoved`, and a rebalance starts.

The rules of the rejoin grace:
- An absent member stays in the group, with its assignment. A rebalance does not wait for the join of an absent member.
  The group does not wait until an absent member fetches its assignment. Requests of an absent member are refused,
  because a departed process sends no requests.
- The client id and process id of the first join identify a dynamic member that comes back. The group instance id
  identifies a static member that comes back. If `_assignment_still_holds` returns True, a returning member keeps its
  assignment. If `_assignment_still_holds` returns False, the join starts a rebalance.
- For a rebalance, an absent member still has its assigned tasks (`subscription_now`). If all members of a process are
  away, the process gets no new tasks (`assignor.task_assignors.steering.away`). So if another process fails, its tasks
  go to running processes.
- A member gets no grace if it is drained or has no assignment. No member gets a grace in a drained group, or after a
  failed rebalance.
- A crash is not a leave: after a session timeout or a broken connection, the tasks move to other members immediately.
- The grace is stored as the member's session, so the session timer also ends the grace. The end of the grace is
  recorded, so a restart of the coordinator does not extend the grace. If all members are away, each member is removed
  at its deadline, and the group becomes empty.

Kafka has no rejoin grace. The nearest concept is static members (KIP-345). However, if a static member sends no
requests, Kafka does not know whether the member has left or has failed.
"""

from dataclasses import replace

from coordinator_api.group.events import Join, Leave
from coordinator_api.group.heartbeats import member_or_refusal, refuse_absent, refuse_after_missed_rebalance
from coordinator_api.group.image import ClassicGroupMember, GroupImage
from coordinator_api.group.outcome import GROUP_NOT_DECLARED, GroupTransition, JoinAnswered, Left, Rejected, Response
from coordinator_api.group.rebalancing import go_on_when_all_joined, start_rebalance
from coordinator_api.group.records import MemberAway, MemberRemoved, MemberReplaced, MemberSubscribed
from coordinator_api.group.states import GroupState, RebalanceOutcome, RebalanceReason, RejectionCode, RemovalReason
from coordinator_api.group.subscriptions import claims_tasks, process_of, static_identity

SHORTEST_GRACE_MS = 1_000
LONGEST_GRACE_MS = 3_600_000


def join(step: GroupTransition, event: Join) -> Response:
    refused = _refuse_unusable(step, event)
    if refused is not None:
        return refused
    if event.member_id is not None:
        known = member_or_refusal(step.image, event.member_id, event.group_instance_id)
        return known if isinstance(known, Rejected) else _rejoin(step, event, known)
    repeated = _first_join_again(step, event)
    if repeated is not None:
        return repeated
    static = step.image.members.with_instance(event.group_instance_id) if event.group_instance_id is not None else None
    if static is not None:
        return _join_as_incarnation(step, event, static)
    away = _place_of(step.image, event) if event.group_instance_id is None else None
    return _join_as_new_member(step, event) if away is None else _take_place(step, event, away)


def leave(step: GroupTransition, event: Leave) -> Response:
    """Handle a `Leave` request. Differs from Kafka: static members leave like dynamic members, because a DELETE is
    always deliberate.

    If a rejoin grace is set, the group reserves the member's tasks for the member's process.
    """
    member = member_or_refusal(step.image, event.member_id, event.group_instance_id)
    if isinstance(member, Rejected):
        return member
    until_ms = _away_until_ms(step.image, member, step.now_ms)
    if until_ms is not None:
        step.emit(MemberAway(event.member_id, until_ms, step.now_ms, event.failure))
        go_on_when_all_joined(step)
        return Left(event.member_id)
    step.emit(MemberRemoved(event.member_id, RemovalReason.LEFT, step.now_ms, event.failure))
    start_rebalance(step, RebalanceReason.MEMBER_LEFT)
    return Left(event.member_id)


def end_grace(step: GroupTransition) -> None:
    """Remove the absent members before their grace ends, and start a rebalance."""
    away = step.image.members.away()
    for member in away:
        step.emit(MemberRemoved(member.member_id, RemovalReason.GRACE_ENDED, step.now_ms))
    if away:
        start_rebalance(step, RebalanceReason.MEMBER_LEFT, "the rejoin grace was ended")


def expire_sessions(step: GroupTransition) -> None:
    """Remove each member whose session timeout has passed without a request. Remove each member whose connection broke,
    if the member did not come back in time. Start a rebalance without the removed members.
    """
    expired = {member_id: _expiry(step, member_id) for member_id in step.liveness.expired_members(step.now_ms)}
    gone = {**dict.fromkeys(_disconnected(step), RemovalReason.DISCONNECTED), **expired}
    for member_id, reason in gone.items():
        step.emit(MemberRemoved(member_id, reason, step.now_ms))
    if gone:
        left = all(reason is RemovalReason.GRACE_ENDED for reason in gone.values())
        detail = f"{', '.join(gone)} did not come back within the rejoin grace" if left else None
        start_rebalance(step, RebalanceReason.MEMBER_LEFT if left else RebalanceReason.MEMBER_REMOVED, detail)


def _expiry(step: GroupTransition, member_id: str) -> RemovalReason:
    if step.image.members[member_id].is_away:
        return RemovalReason.GRACE_ENDED
    silent = step.liveness.sessions[member_id].silent_since_join
    return RemovalReason.NO_REQUEST_SINCE_JOIN if silent else RemovalReason.SESSION_EXPIRED


def _disconnected(step: GroupTransition) -> list[str]:
    """Returns the members with `leave_on_disconnect` whose connections broke. A member without `leave_on_disconnect` is
    removed when its session times out, as in Kafka.
    """
    found: list[str] = []
    for member_id in step.liveness.disconnected_members(step.now_ms):
        if step.image.members[member_id].last_join.leave_on_disconnect:
            found.append(member_id)
        else:
            step.liveness.belongs_to(member_id, None, step.now_ms)
    return found


def remove_members_that_never_fetched(step: GroupTransition) -> None:
    """Remove members that have not fetched their assignment in time. A member that never fetches its assignment may
    still send heartbeats. The tasks of a member that never fetches its assignment would not run anywhere.
    """
    image, liveness = step.image, step.liveness
    if image.state is not GroupState.STABLE or liveness.fetch_due_ms is None or liveness.fetch_due_ms > step.now_ms:
        return
    if not liveness.unfetched:
        liveness.fetch_due_ms = None
        return
    for member_id in tuple(liveness.unfetched):
        step.emit(MemberRemoved(member_id, RemovalReason.ASSIGNMENT_NOT_FETCHED, step.now_ms))
    start_rebalance(step, RebalanceReason.MEMBER_REMOVED)


def _refuse_unusable(step: GroupTransition, event: Join) -> Rejected | None:
    image, limits = step.image, step.limits
    if image.state is GroupState.DEAD or image.input_json is None:
        return GROUP_NOT_DECLARED
    if not limits.min_session_timeout_ms <= event.session_timeout_ms <= limits.max_session_timeout_ms:
        return Rejected(
            RejectionCode.INVALID_SESSION_TIMEOUT,
            f"session_timeout_ms must be from {limits.min_session_timeout_ms} to {limits.max_session_timeout_ms}, "
            f"not {event.session_timeout_ms}",
        )
    if event.rebalance_timeout_ms < 1:
        return Rejected(
            RejectionCode.INVALID_REQUEST, f"rebalance_timeout_ms must be at least 1, not {event.rebalance_timeout_ms}"
        )
    proposed = event.new_member_id
    if event.member_id is None and (proposed in image.members or image.members.has_fenced(proposed)):
        return Rejected(
            RejectionCode.INVALID_REQUEST, f"the proposed member id {proposed} is in use; propose another one"
        )
    return None


def _first_join_again(step: GroupTransition, event: Join) -> Response | None:
    """Returns the answer to a repeated first join. A joining member repeats its first join, with the same `join_id`, if
    the answer was lost. The group does not change.

    Returns None if no member has the `join_id`, or if the join has a newer incarnation. The answer names the generation
    that the member has to wait for now. The member may have rejoined after its first join. Differs from Kafka: the
    classic protocol has no `join_id`. With KIP-1082, the consumer chooses its member id.
    """
    known = None if event.join_id is None else step.image.members.with_join_id(event.join_id)
    if known is None:
        return None
    if known.is_away and (event.incarnation or 0) <= (known.last_join.incarnation or 0):
        return refuse_absent(known)
    if known.last_join.group_instance_id != event.group_instance_id:
        return Rejected(
            RejectionCode.INVALID_REQUEST,
            f"the join_id {event.join_id} belongs to a member with another group instance id; choose another join_id",
        )
    if (event.incarnation or 0) > (known.last_join.incarnation or 0):
        return None
    refused = _refuse_stale(step, event, known)
    if refused is not None:
        return refused
    image = step.image
    step.liveness.request_arrived(known, step.now_ms)
    waits_for_next = image.state is GroupState.PREPARING_REBALANCE and image.has_joined(known)
    generation_id = image.generation_id + 1 if waits_for_next else image.generation_id
    return JoinAnswered(known.member_id, generation_id, image.state, created=False)


def _join_as_new_member(step: GroupTransition, event: Join) -> Response:
    """Adds a new member. Differs from Kafka: the size limit also counts members that have not rejoined yet for the
    rebalance that is being prepared. Because of this stricter limit, a slow member can still rejoin when the group is
    full.
    """
    if len(step.image.members) >= step.limits.max_size:
        return Rejected(
            RejectionCode.GROUP_MAX_SIZE_REACHED,
            f"the group has {len(step.image.members)} members, the most that group.max.size allows",
        )
    if event.no_room is not None:
        return Rejected(RejectionCode.POLICY_VIOLATION, event.no_room)
    generation_id = step.image.generation_id + 1
    joined = event.to_last_join(event.group_instance_id, event.incarnation, generation_id)
    step.emit(MemberSubscribed(event.new_member_id, joined))
    start_rebalance(step, RebalanceReason.MEMBER_JOINED)
    return JoinAnswered(event.new_member_id, generation_id, step.image.state, created=True)


def _rejoin(step: GroupTransition, event: Join, member: ClassicGroupMember) -> Response:
    """Handle the join of a known member. If the subscription is unchanged and no rebalance waits for the member, the
    join counts as a repeated request.
    """
    refused = _refuse_stale(step, event, member)
    if refused is not None:
        return refused
    step.liveness.request_arrived(member, step.now_ms)
    image, known = step.image, member.last_join
    preparing = image.state is GroupState.PREPARING_REBALANCE
    repeated = event.subscription == known.subscription and (not preparing or image.has_joined(member))
    generation_id = image.generation_id + 1 if preparing or not repeated else image.generation_id
    incarnation = known.incarnation if event.incarnation is None else event.incarnation
    first = event.member_id is None and event.join_id is not None
    join_id = event.join_id if first else known.join_id
    joined = replace(event.to_last_join(known.group_instance_id, incarnation, generation_id), join_id=join_id)
    if not repeated or joined != known:
        step.emit(MemberSubscribed(member.member_id, joined))
    if not repeated:
        start_rebalance(step, RebalanceReason.SUBSCRIPTION_CHANGED)
    return JoinAnswered(member.member_id, generation_id, step.image.state, created=False)


def _join_as_incarnation(step: GroupTransition, event: Join, old: ClassicGroupMember) -> Response:
    """Handle the join of a known static member if the join has no member id. Either the member's process was restarted,
    or the process repeats a join whose answer was lost.

    The newer incarnation replaces the older incarnation and gets its assignment. The join of a newer incarnation needs
    no rebalance if `_assignment_still_holds` returns True. The owned partitions and offset sums do not have to be equal
    to those of the older incarnation. Differs from Kafka: a join is refused if its `incarnation` is lower than the
    incarnation in the member's last join. A join with the same incarnation and the same bytes as the last join is a
    repeated request. A change of the member's process, tags, topics or versions starts a rebalance. In Kafka, a changed
    static member keeps its old assignment.
    """
    refused = _refuse_stale(step, event, old)
    if refused is not None:
        return refused
    known = old.last_join
    same_incarnation = event.incarnation is not None and event.incarnation == known.incarnation
    if same_incarnation and event.subscription == known.subscription:
        return refuse_absent(old) or _rejoin(step, event, old)
    return _take_place(step, event, old)


def _take_place(step: GroupTransition, event: Join, old: ClassicGroupMember) -> Response:
    """Replace the old member by the restarted member, which has a new member id."""
    known = old.last_join
    unchanged = _assignment_still_holds(step.image, event, old)
    generation_id = step.image.generation_id if unchanged else step.image.generation_id + 1
    incarnation = known.incarnation if event.incarnation is None else event.incarnation
    step.emit(MemberReplaced(known.group_instance_id, old.member_id, event.new_member_id))
    joined = event.to_last_join(known.group_instance_id, incarnation, generation_id)
    step.emit(MemberSubscribed(event.new_member_id, joined))
    if not unchanged:
        dynamic = known.group_instance_id is None
        start_rebalance(step, RebalanceReason.MEMBER_JOINED if dynamic else RebalanceReason.STATIC_MEMBER_REPLACED)
    return JoinAnswered(event.new_member_id, generation_id, step.image.state, created=True, replaced=old.member_id)


def _refuse_stale(step: GroupTransition, event: Join, member: ClassicGroupMember) -> Rejected | None:
    """Returns a refusal if an older incarnation sent the join. Also returns a refusal if a static member missed a
    rebalance but still reports that it owns tasks.

    Differs from Kafka: if a static member missed a rebalance, Kafka refuses only its heartbeats, and accepts its
    JoinGroup. This group also refuses the JoinGroup, because the member's tasks may now run in other members.
    """
    refused = _refuse_older_incarnation(event, member)
    if refused is not None or not claims_tasks(event.subscription):
        return refused
    return refuse_after_missed_rebalance(step.image, member)


def _refuse_older_incarnation(event: Join, member: ClassicGroupMember) -> Rejected | None:
    """Returns a refusal if the join has a lower incarnation than the member's last join; else None.

    Differs from Kafka, which has no incarnations.
    """
    known = member.last_join.incarnation
    if event.incarnation is None or known is None or event.incarnation >= known:
        return None
    return Rejected(
        RejectionCode.FENCED_INSTANCE_ID,
        f"incarnation {known} of {member.last_join.group_instance_id} has joined, "
        f"which is newer than {event.incarnation}; stop this one",
    )


def _away_until_ms(image: GroupImage, member: ClassicGroupMember, now_ms: int) -> int | None:
    """Returns the end of the rejoin grace of a member that leaves now; None if the member gets no grace."""
    grace, last = image.levers.rejoin_grace, image.last_rebalance
    asked_to_stop = image.draining or (last is not None and last.end.error_code != 0)
    if grace is None or asked_to_stop or member.last_assignment.assignment is None:
        return None
    drained = image.levers.drained
    if drained and (member.member_id in drained or str(process_of(member.last_join.subscription)) in drained):
        return None
    return now_ms + grace.value_ms


def _place_of(image: GroupImage, event: Join) -> ClassicGroupMember | None:
    """Finds the absent dynamic member with the client id and process id of this join. Returns None if no absent member
    matches.
    """
    away = [each for each in image.members.away() if not each.is_static and each.last_join.client_id == event.client_id]
    if not away:
        return None
    process_id = process_of(event.subscription)
    if process_id is None:
        return None
    return next((each for each in away if process_of(each.last_join.subscription) == process_id), None)


def _assignment_still_holds(image: GroupImage, event: Join, old: ClassicGroupMember) -> bool:
    """Returns whether a member that came back can keep its earlier assignment.

    The member loses its assignment if the group is not Stable, or if a rebalance ran while the member was away. The
    member also loses its assignment if its `static_identity` has changed, for example its process id or its topics. A
    join after a failed rebalance starts another rebalance, so the member loses its assignment. After the outcome
    `follow-up` or `settled`, some tasks still wait until their owners revoke them. A restarted process has revoked its
    tasks, so a new rebalance can give these tasks to their new owners.
    """
    end = image.present_end
    if end is None or end.outcome in (RebalanceOutcome.FOLLOW_UP, RebalanceOutcome.SETTLED, RebalanceOutcome.ERROR):
        return False
    if old.is_away and not image.takes_part(old):
        return False
    return static_identity(event.subscription) == static_identity(old.last_join.subscription)
