"""The rules of a group's health: each reason for a bad health is made in this file, and only in this file. Lists,
descriptions, pages, metrics and the exit code of `groups describe --check` show these reasons.

The reasons are sorted: the worst level first, and within one level in the order of `ReasonCode`. The lags of task
copies are not known to every caller. Without lags, the health has no reasons about restoring tasks, and all other
reasons are the same.

If the leader of the group is outside this service, the service knows only what this leader reports. The health then has
only reasons about the last reported rebalance.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from assignor.names.short_names import instance_names, names_of_ended, names_of_threads, short_members
from assignor.types import AssignorErrorCode, Role
from coordinator_api.group.health import (
    GroupHealth,
    GroupObservation,
    HealthLevel,
    HealthReason,
    ReasonCode,
)
from coordinator_api.group.image import GroupImage, InstanceEnd, LastRebalance
from coordinator_api.group.notices import ReceivedNotice
from coordinator_api.group.states import GroupState, RebalanceOutcome, RemovalReason
from coordinator_api.group.subscriptions import process_of
from rebalance_analysis.presentation.quantities import counted

OWNERLESS_AFTER_MS = 30_000
"""A rebalance may leave tasks without an owner for a moment, until their old owners have revoked them. After this time,
the lack of an owner is not part of a normal rebalance.
"""

SLOW_REBALANCE_MS = 60_000
"""A rebalance that waits longer than this for its members is not a normal rebalance."""

ENDS_COUNT_MS = 86_400_000
"""The time for which the end of an instance is a reason, if no other instance takes its place."""

BROKEN_AFTER_MS = 1_000
"""A process may open a new connection at once, so a connection that broke just now is no reason."""

REFUSALS_COUNT_MS = 600_000
"""The time for which refused calls are a reason, from the last of them."""

WARM_UP_STALLED_MS = 30_000
"""A warm-up that reads no record for this time after a rebalance is stalled. The rebalance has found it behind, or it
would not be a warm-up.
"""

LONG_WARM_UP_MS = 1_800_000
"""A warm-up that lasts longer than this probably never ends."""

HOT_SHARE = 0.8
"""If one of several tasks has at least this share of the lag, the lag is a matter of its partition or its records."""

_NAMES_IN_TEXT = 5
_MOST_PLACES = 100
"""The largest number of members or tasks that one reason lists. Its count is not limited."""

_OTHER_PARTITIONS = re.compile(
    r"internal topic (?P<topic>\S+) has invalid partitions: expected: (?P<expected>\d+); actual: (?P<actual>\d+)"
)


def health_of(seen: GroupObservation) -> GroupHealth:
    """Computes the health of a group. Takes time in proportion to the notices and copies, not to the members."""
    rules = _RULES if seen.image.led_by is None else (_reported_failure,)
    reasons = [reason for rule in rules for reason in rule(seen)]
    order = list(ReasonCode)
    reasons.sort(key=lambda reason: (-reason.level.rank, order.index(reason.code)))
    return GroupHealth(tuple(reasons))


Reasons = Iterator[HealthReason]


def _reported_failure(seen: GroupObservation) -> Reasons:
    last = seen.image.last_rebalance
    if last is not None and last.end.error is not None:
        text = f"The last rebalance failed: {last.end.error}."
        since_ms = seen.image.reported_at_ms
        yield HealthReason(HealthLevel.BROKEN, ReasonCode.REBALANCE_FAILED, text, since_ms=since_ms)


def failed_rebalance_text(image: GroupImage) -> str | None:
    """Returns what went wrong in the last rebalance, for its members; None if it did not fail."""
    failed = next(_failed_rebalance(GroupObservation("", image, 0)), None)
    return None if failed is None else failed.text


def _failed_rebalance(seen: GroupObservation) -> Reasons:
    image, last = seen.image, seen.image.last_rebalance
    if last is None or image.state not in (GroupState.STABLE, GroupState.EMPTY):
        return
    if last.awaits_topics() or last.end.error_code == AssignorErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA:
        yield _missing_topics(seen, last)
    elif last.end.outcome is RebalanceOutcome.ERROR:
        yield _failure(seen, last)


def _missing_topics(seen: GroupObservation, last: LastRebalance) -> HealthReason:
    if not last.basis.polled_cluster:
        missing = seen.missing_topics
        named = f": {_listed(_quoted(missing))}" if missing else ""
        text, action = f"The definition's cluster lacks source topics{named}.", "PUT a definition that has them."
        return _broken(seen, ReasonCode.MISSING_SOURCE_TOPICS, text, action, where=missing)
    missing = last.basis.missing_topics
    then = "the coordinator then starts a rebalance." if seen.image.members else "then start the members again."
    where = seen.cluster.address or "the cluster"
    text = f"Source topics are missing on {where}: {_listed(_quoted(missing))}."
    command = f"assignor topics create {missing[0]}" if missing else None
    action = f"If the names are right, create them; {then}"
    return _broken(seen, ReasonCode.MISSING_SOURCE_TOPICS, text, action, command, missing)


def _failure(seen: GroupObservation, last: LastRebalance) -> HealthReason:
    error = (last.end.error or "no reason is known").rstrip(".")
    found = _OTHER_PARTITIONS.search(error)
    if found is None:
        again = "when a member joins, a topic of the group changes, or a definition is PUT"
        action = f"It is tried again {again}, and not before that."
        return _broken(seen, ReasonCode.REBALANCE_FAILED, f"The last rebalance failed: {error}.", action)
    topic, expected, actual = found["topic"], found["expected"], found["actual"]
    text = (
        f"The last rebalance failed: its source topics need {expected} partitions of the internal topic {topic}, which "
        f"has {actual}. Kafka's error: {error}."
    )
    again = "start the instances again" if seen.cluster.address else "PUT a definition without the topic"
    if int(expected) > int(actual):
        adding = f"`assignor topics alter {topic} --partitions {expected}`"
        keeps = "Adding partitions keeps the state"
    else:
        adding = f"`assignor topics alter SOURCE_TOPIC --partitions {actual}`"
        keeps = "A topic cannot lose partitions. Adding partitions to its source topics keeps the state"
    action = (
        f"Stop all instances, make the number of partitions fit, then {again}. {keeps}, but a key that now belongs to "
        f"another partition begins without its state: {adding}. A reset deletes the state, and the input is read again"
    )
    command = f"assignor reset --application-id {seen.group_id}"
    return _broken(seen, ReasonCode.REBALANCE_FAILED, text, action, command, where=(topic,))


def _failing_store(seen: GroupObservation) -> Reasons:
    if seen.store is not None:
        at_rest = seen.image.state in (GroupState.STABLE, GroupState.EMPTY)
        yield HealthReason(
            HealthLevel.DEGRADED if at_rest else HealthLevel.BROKEN,
            ReasonCode.STORE_FAILS,
            f"The database of the coordinator takes no changes: {seen.store.problem}. Members of all its groups keep "
            "the tasks they have, and nobody takes over the tasks of a member that ends.",
            "See whether the disk of the database is full or damaged, and leave running instances alone until it is "
            "mended. The coordinator then goes on by itself. Its log has the whole error.",
            since_ms=seen.store.since_ms,
        )


def _expired_tokens(seen: GroupObservation) -> Reasons:
    """Yields a reason while members call with expired tokens. An instance that ended because of its token cannot report
    its error, so the reason also holds while its end counts.
    """
    refused = seen.refused_tokens
    if refused is None:
        return
    is_recent = seen.now_ms - refused.last_ms <= REFUSALS_COUNT_MS
    if is_recent or any(end.at_ms >= refused.since_ms for end in _bad_ends(seen)):
        yield HealthReason(
            HealthLevel.DEGRADED if seen.image.members else HealthLevel.BROKEN,
            ReasonCode.TOKEN_EXPIRED,
            f"Calls of instances are refused, because {refused.why}. The newest call is of {refused.caller}.",
            "Put a new token into the file or variable from which the instances read it, and start the instances that "
            "have ended",
            "assignor tokens create NAME --right member",
            since_ms=refused.since_ms,
            last_ms=refused.last_ms,
            count=refused.count,
        )


def _other_application(seen: GroupObservation) -> Reasons:
    refused = seen.refused_definitions
    if refused is None or seen.now_ms - refused.last_ms > REFUSALS_COUNT_MS:
        return
    if refused.last_ms >= (seen.image.origin.declared_at_ms or 0):
        yield HealthReason(
            HealthLevel.DEGRADED,
            ReasonCode.OTHER_APPLICATION,
            f"Another application with this application.id was refused: {refused.why}. It is {refused.caller}. The "
            "instances of this group go on.",
            "Give that application another application.id. If it is the next version of this one, start it when all "
            "instances of this one have stopped",
            f"assignor groups drain {seen.group_id}",
            since_ms=refused.since_ms,
            last_ms=refused.last_ms,
            count=refused.count,
        )


_DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded|File too large|database or disk is full")
_OUT_OF_MEMORY = re.compile(r"\b(MemoryError|bad_alloc|ArrowMemoryError)\b|Cannot allocate memory")
_OF_A_RECORD = re.compile(r"the record is \S+ at offset \d+$")

_KILLED = "it was killed (by a signal, or because the memory of its machine or container ran out)"
_LOST_BECAUSE = {
    RemovalReason.SESSION_EXPIRED: (
        f"It was silent for its session.timeout.ms: {_KILLED}, its machine or its network failed, or it hung."
    ),
    RemovalReason.DISCONNECTED: (
        f"Its connection broke, and it did not come back: {_KILLED}, or its machine or its network failed."
    ),
    RemovalReason.NO_REQUEST_SINCE_JOIN: f"It sent no request after its join: {_KILLED}, or its network failed.",
    RemovalReason.REBALANCE_TIMEOUT: (
        "It did not rejoin within its rebalance.timeout.ms: one record, or one call of its code, took longer."
    ),
    RemovalReason.ASSIGNMENT_NOT_FETCHED: (
        "It did not fetch its assignment: one record, or one call of its code, took too long."
    ),
}


def _ended_instances(seen: GroupObservation) -> Reasons:
    """Yields a reason for the instances that failed, and one for those that ended without a goodbye. An end of the last
    day counts until another instance has joined in its place, or until the same process is back.
    """
    ended = _bad_ends(seen)
    names = instance_names({end.process_id: end.client_id for end in ended})
    failed = [end for end in ended if end.failure is not None]
    lost = [end for end in ended if end.failure is None]
    if failed and _ended_by_rebalance(seen, failed[0]):
        text = "ended, because the last rebalance failed."
        action = "Start it again when the next rebalance can succeed."
        yield _of_ends(HealthLevel.BROKEN, ReasonCode.INSTANCE_FAILED, failed, names, text, action)
    elif failed:
        text, action = _failure_text(failed[0]), _mend(failed[0])
        yield _of_ends(HealthLevel.BROKEN, ReasonCode.INSTANCE_FAILED, failed, names, text, action)
    if lost:
        level = HealthLevel.DEGRADED if seen.image.members else HealthLevel.BROKEN
        action = (
            "Its log and the log of its machine or container tell the cause, such as OOMKilled or exit code 137 for "
            "too little memory. Start it again."
        )
        text = f"ended without a goodbye. {_LOST_BECAUSE[lost[0].reason]}"
        if seen.image.members and seen.image.state is GroupState.STABLE and not seen.ownerless:
            text += " Other instances have its tasks."
        yield _of_ends(level, ReasonCode.INSTANCE_LOST, lost, names, text, action)


def _ended_by_rebalance(seen: GroupObservation, end: InstanceEnd) -> bool:
    """Returns True if the error of the instance repeats the reason of the last rebalance, which failed."""
    last = seen.image.last_rebalance
    if last is None or last.end.error is None or end.failure is None:
        return False
    return last.end.error.rstrip(".") in end.failure.message and any(_failed_rebalance(seen))


def _broken_connections(seen: GroupObservation) -> Reasons:
    """Yields a reason for members that are missed but not removed yet, because most connections of the group broke."""
    count, since_ms = len(seen.disconnected), seen.disconnected_since_ms
    names = _threads(seen.disconnected)
    if count and since_ms is not None and seen.now_ms - since_ms >= BROKEN_AFTER_MS:
        refused = seen.refused_tokens
        if refused is not None and seen.now_ms - refused.last_ms <= REFUSALS_COUNT_MS:
            why = "Calls of instances are refused because of their token"
            action = "Give the instances a new token first. They do not come back without one."
        else:
            why = f"Either the network is broken, or each process has ended: {_KILLED}"
            action = (
                "See whether the processes run, and start those again that have ended. A process that still runs comes "
                "back by itself when the network is mended. A member that stays away for its session.timeout.ms is "
                "removed from the group."
            )
        yield HealthReason(
            HealthLevel.DEGRADED,
            ReasonCode.CONNECTIONS_BROKEN,
            f"The connections of {count:,} of {len(seen.image.members):,} members broke, and they have not come back: "
            f"{_listed(names)}. {why}. It is not known whether these members still process records.",
            action,
            since_ms=since_ms,
            where=names[:_MOST_PLACES],
            count=count,
        )


def _bad_ends(seen: GroupObservation) -> list[InstanceEnd]:
    """The ends of the last day that were not wanted, and in whose place no instance has joined. The newest is first."""
    return [
        end
        for end in reversed(seen.image.ends)
        if end.replaced_by is None and not end.is_good and seen.now_ms - end.at_ms <= ENDS_COUNT_MS
    ]


def _mend(end: InstanceEnd) -> str:
    """Returns what to do about an instance that has failed."""
    because, failure = _cause(end), end.failure
    is_of_a_record = failure is not None and _OF_A_RECORD.search(failure.message) is not None
    if because is _MEMORY and is_of_a_record:
        return f"{because.action}, and start it again. If it fails at the same record again, mend the code."
    if because is not None:
        return f"{because.action}, and start it again."
    if failure is not None and is_of_a_record:
        first = "See whether the schema registry is the right one and has the schema. Else mend"
        mend = first if "schema registry" in failure.message else "Mend"
        return (
            f"{mend} the code or the record, and start it again: it fails at the same record until then. To go on "
            "without such records, set its exception handler to dead_letter or log_and_continue."
        )
    return "Mend the cause, and start it again. The log of the instance has the whole stack trace."


class _Cause(NamedTuple):
    """A cause that can be told from an error. `action`: a clause without its end."""

    text: str
    action: str


_FULL = _Cause("its disk is full", "Free space on the disk of its state.dir or of the log that it writes")
_MEMORY = _Cause("its memory ran out", "Give it more memory, or fewer threads or smaller caches")


def _cause(end: InstanceEnd) -> _Cause | None:
    error = "" if end.failure is None else f"{end.failure.error}: {end.failure.message}"
    return _FULL if _DISK_FULL.search(error) else _MEMORY if _OUT_OF_MEMORY.search(error) else None


def _failure_text(end: InstanceEnd) -> str:
    """Returns what happened to an instance that has failed, without its name."""
    failure, cause = end.failure, _cause(end)
    assert failure is not None
    at = ", ".join(each for each in (failure.place, failure.task and f"task {failure.task}") if each)
    message = f": {failure.message}" if failure.message else ""
    because = "" if cause is None else f", because {cause.text}"
    return f"failed{because}: {failure.error}{message}{f' ({at})' if at else ''}."


def _of_ends(
    level: HealthLevel,
    code: ReasonCode,
    newest_first: Sequence[InstanceEnd],
    names: Mapping[str, str],
    text: str,
    action: str,
) -> HealthReason:
    """A reason about instances that ended. `text`: what happened to the newest of them, without its name."""
    newest, count = newest_first[0], len(newest_first)
    more = "" if count == 1 else f" It is the newest of {count:,}."
    return HealthReason(
        level,
        code,
        f"Instance {names[newest.process_id]} {text}{more}",
        action,
        since_ms=newest_first[-1].at_ms,
        last_ms=newest.at_ms if count > 1 else None,
        where=tuple(names[end.process_id] for end in newest_first),
        count=count,
    )


def _no_instances(seen: GroupObservation) -> Reasons:
    image = seen.image
    if image.state is not GroupState.EMPTY:
        return
    last = image.ends[-1] if image.ends else None
    level, why, action = HealthLevel.BROKEN, ".", "Start instances to go on."
    if not image.generation_id:
        text, action = "No instance has joined yet", "Start instances, and give them the address of this coordinator."
        level = HealthLevel.BUSY
    else:
        text = "No instance is left, so nothing is processed"
        if last is None:
            why = ": the members have left, or were silent for their session.timeout.ms."
            action = (
                "The service's log says which (member_removed, with the reason), the log of each instance says why. "
                "Start instances to go on."
            )
        elif last.is_good:
            name = instance_names({last.process_id: last.client_id})[last.process_id]
            level, why = HealthLevel.DEGRADED, f": {name} was the last, and was stopped."
        elif _bad_ends(seen):
            action = "Mend the cause above first. Then start instances."
    since_ms = None if last is None else last.at_ms
    yield HealthReason(level, ReasonCode.NO_INSTANCES, f"{text}{why}", action, since_ms=since_ms)


def _paused(seen: GroupObservation) -> Reasons:
    lever = seen.image.levers.pause
    if lever is not None:
        decision = lever.decision
        because = f", because: {decision.reason}" if decision.reason else ""
        yield HealthReason(
            HealthLevel.DEGRADED,
            ReasonCode.PAUSED,
            f"An operator has paused the group{because}.",
            "Nothing is processed until it is resumed",
            f"assignor groups resume {seen.group_id}",
            since_ms=decision.at_ms,
        )


def _unmatched_patterns(seen: GroupObservation) -> Reasons:
    last = seen.image.last_rebalance
    if last is None or seen.image.state is not GroupState.STABLE or last.end.outcome is RebalanceOutcome.ERROR:
        return
    patterns = last.basis.missing_topics
    if patterns:
        yield HealthReason(
            HealthLevel.DEGRADED if seen.has_active_task else HealthLevel.BROKEN,
            ReasonCode.NO_TOPIC_MATCHES,
            f"No topic matches the pattern {_listed(patterns)}, so there are no tasks that read it.",
            "The coordinator starts a rebalance when a topic that matches is created.",
            where=patterns,
        )


def _no_tasks(seen: GroupObservation) -> Reasons:
    image, last = seen.image, seen.image.last_rebalance
    if image.state is not GroupState.STABLE or last is None or seen.copies is None or not image.members:
        return
    comes_by_itself = last.end.outcome in (RebalanceOutcome.FOLLOW_UP, RebalanceOutcome.ERROR)
    if not comes_by_itself and not seen.has_active_task:
        yield _broken(
            seen,
            ReasonCode.NO_TASKS,
            "No member has a task, so nothing is processed.",
            "See the reasons of the last rebalance, and whether the topology reads any topic that has partitions",
            f"assignor rebalances show {seen.group_id}",
        )


def _ownerless_tasks(seen: GroupObservation) -> Reasons:
    image, since_ms = seen.image, seen.ownerless_since_ms
    failed = image.present_end is not None and image.present_end.outcome is RebalanceOutcome.ERROR
    if not seen.ownerless or since_ms is None or failed or image.state is GroupState.EMPTY:
        return
    tasks = f"{seen.ownerless:,} tasks have" if seen.ownerless > 1 else "One task has"
    away = _threads(member.member_id for member in image.members.away())
    if away:
        text = f"{tasks} no owner: kept for members that are away: {_listed(away)}."
        action = "Start the instance again, or end the rejoin grace to give its tasks to others"
        command = f"assignor groups grace {seen.group_id} --off"
    else:
        text, action, command = f"{tasks} no owner, so a part of the input is not processed.", None, None
    level = HealthLevel.BROKEN if seen.now_ms - since_ms >= OWNERLESS_AFTER_MS else HealthLevel.BUSY
    yield HealthReason(
        level,
        ReasonCode.TASKS_WITHOUT_OWNER,
        text,
        action,
        command,
        since_ms=since_ms,
        where=away,
        count=seen.ownerless,
    )


def _held_rebalance(seen: GroupObservation) -> Reasons:
    held = seen.image.held
    if held is not None:
        yield HealthReason(
            HealthLevel.DEGRADED,
            ReasonCode.HELD_REBALANCE,
            f"The rebalance of generation {seen.image.generation_id} waits for approval, because an operator holds "
            "rebalances. Members keep the tasks they have meanwhile. It is carried out by itself at the end of the "
            "time limit.",
            "See what it would move, then approve or discard it",
            f"assignor groups held {seen.group_id}",
            since_ms=held.since_ms,
        )


def _growing_lag(seen: GroupObservation) -> Reasons:
    """Yields one reason. If one of several tasks has most of the lag, its partition or its records are the cause, and
    more instances would not help.
    """
    since_ms = seen.flow.grows_since_ms()
    if since_ms is None:
        return
    newest, first = seen.flow.points[-1], next(each for each in seen.flow.points if each.at_ms == since_ms)
    per_s, growth_per_s = newest.per_s or 0, (newest.lag - first.lag) * 1_000 / max(1, newest.at_ms - since_ms)
    lags = {task: flow.lag or 0 for task, flow in seen.task_flows.items()}
    hottest = max(lags, key=lambda task: lags[task], default=None)
    if hottest is not None and len(lags) > 1 and lags[hottest] >= HOT_SHARE * sum(lags.values()):
        yield HealthReason(
            HealthLevel.DEGRADED,
            ReasonCode.HOT_PARTITION,
            f"The input lag of task {hottest} grows, and the other tasks keep up: {lags[hottest]:,} of "
            f"{sum(lags.values()):,} waiting records are its own, "
            f"{seen.task_flows[hottest].per_s or 0:,.0f} a second are processed.",
            "Look for a key that most records have, or for records that take long. More instances do not help, because "
            "one task runs on one thread. See the lag of each task",
            f"assignor groups lag {seen.group_id}",
            since_ms=since_ms,
            where=(str(hottest),),
            count=lags[hottest],
        )
    else:
        yield HealthReason(
            HealthLevel.DEGRADED,
            ReasonCode.LAG_GROWS,
            f"The input lag grows: {newest.lag:,} records wait, {per_s + growth_per_s:,.0f} a second arrive, and "
            f"{per_s:,.0f} a second are processed.",
            "Add instances or stream threads, up to the number of tasks, or make the function that takes longest "
            "faster. See the lag of each task",
            f"assignor groups lag {seen.group_id}",
            since_ms=since_ms,
            count=newest.lag,
        )


def _stalled_warm_ups(seen: GroupObservation) -> Reasons:
    """Yields a reason for warm-ups that have read no record since the last rebalance, and one for warm-ups that last
    very long.
    """
    at_ms = seen.rebalanced_at_ms
    is_over = at_ms is not None and seen.now_ms - at_ms >= WARM_UP_STALLED_MS
    stalled = [each for each in seen.warm_ups if at_ms is not None and is_over and (each.progress_ms or 0) <= at_ms]
    long = [each for each in seen.warm_ups if each not in stalled and seen.now_ms - each.since_ms >= LONG_WARM_UP_MS]
    for late, text, action in (
        (
            stalled,
            "Warm-ups make no progress: {0}. Their tasks do not move to these members meanwhile.",
            "Look at the log of the instance, or stop it. It is paused or hangs, its disk is slow, or it cannot read "
            "the changelog.",
        ),
        (
            long,
            "Warm-ups do not end: {0}. They read about as fast as their tasks write.",
            "Give the instance a faster disk or network, or raise acceptable.recovery.lag.",
        ),
    ):
        if late:
            names = short_members(each.member_id for each in late)
            yield HealthReason(
                HealthLevel.DEGRADED,
                ReasonCode.WARM_UP_STALLED,
                text.format(_listed(f"{each.task} on {names[each.member_id]}" for each in late)),
                action,
                since_ms=min(each.since_ms for each in late),
                where=tuple(dict.fromkeys(names[each.member_id] for each in late))[:_MOST_PLACES],
                count=len(late),
            )


def _mixed_releases(seen: GroupObservation) -> Reasons:
    if not seen.releases:
        return
    joins = {member.member_id: member.last_join for member in seen.image.members.values()}
    processes = {member_id: str(process_of(join.subscription) or member_id) for member_id, join in joins.items()}
    names = names_of_threads((process, joins[member_id].client_id) for member_id, process in processes.items())
    instances: dict[str, set[str]] = {}
    for member_id, release in seen.releases.items():
        name = names[processes[member_id]] if member_id in processes else member_id
        instances.setdefault(release, set()).add(name)
    by_count = sorted(instances.items(), key=lambda item: (len(item[1]), item[0]), reverse=True)
    fewer = tuple(sorted(name for _, by_name in by_count[1:] for name in by_name))
    most, *rest = by_count
    on_each = [f"{most[0]} on {len(most[1]):,}"]
    on_each += [f"{release} on {len(by_name):,} ({_listed(sorted(by_name))})" for release, by_name in rest]
    yield HealthReason(
        HealthLevel.DEGRADED,
        ReasonCode.MIXED_RELEASES,
        f"The instances run different releases of assignor: {_listed(on_each)}.",
        "Unless an upgrade is under way, start the instances of the older release again with the newer one.",
        since_ms=seen.mixed_since_ms,
        where=fewer[:_MOST_PLACES],
        count=len(fewer),
    )


def _restarted(seen: GroupObservation) -> Reasons:
    silent = len(seen.silent_members)
    if silent:
        yield HealthReason(
            HealthLevel.BUSY,
            ReasonCode.COORDINATOR_RESTARTED,
            f"The coordinator was started again or took the group over, and {silent:,} of {len(seen.image.members):,} "
            "members have not sent a request since. They keep their tasks, but the coordinator does not know yet "
            "whether they run.",
            "Wait: most members send a request within seconds, and a member that stays silent for its "
            "session.timeout.ms is removed. If all stay silent, the address of the coordinator has changed, or the "
            "network is broken.",
            since_ms=seen.opened_at_ms,
            where=_threads(seen.silent_members[:_MOST_PLACES]),
            count=silent,
        )


def _cluster(seen: GroupObservation) -> Reasons:
    cluster = seen.cluster
    if cluster.error is not None:
        is_waiting = seen.image.state is GroupState.COMPLETING_REBALANCE
        if is_waiting:
            text = f"The rebalance waits for the cluster: {cluster.error}."
            action = (
                "See whether the brokers run, and whether this machine reaches them. Members keep the tasks they have, "
                "and the rebalance goes on by itself when the cluster answers."
            )
        else:
            text = f"The cluster does not answer: {cluster.error}."
            action = (
                "See whether the brokers run, and whether this machine reaches them. Members keep the tasks they have, "
                "and the coordinator asks the cluster again until it answers."
            )
        yield HealthReason(
            HealthLevel.BROKEN if is_waiting else HealthLevel.DEGRADED,
            ReasonCode.CLUSTER_UNREACHABLE,
            text,
            action,
            since_ms=cluster.failing_since_ms,
            where=() if cluster.address is None else (cluster.address,),
        )
    if cluster.topology_error is not None:
        yield HealthReason(
            HealthLevel.DEGRADED,
            ReasonCode.TOPICS_DO_NOT_FIT,
            cluster.topology_error,
            "Until then, new topics are not read, and a rebalance would fail.",
        )


_NOTICE_ACTIONS = {
    ReasonCode.RECORDS_PASSED_OVER: "The group was too slow for the retention of these topics: raise their "
    "retention.ms, or add instances.",
    ReasonCode.POSITION_BEYOND_END: "The topic was made again or lost records. If this is intended, there is nothing "
    "to do.",
    ReasonCode.RECORDS_DEAD_LETTERED: "Look at them with `assignor dead-letters list TOPIC`, and put them back "
    "with `assignor dead-letters retry TOPIC` once the cause is mended.",
    ReasonCode.RECORDS_DROPPED: "They do not count in the results. If that is not intended, mend the cause: a window "
    "needs a longer grace period for late records, and an exception handler decides about records that fail.",
    ReasonCode.STORE_REBUILT: "Nothing, if it stays the only time. Else look at the disk of the instance.",
    ReasonCode.CLOCK_WRONG: "Find the machine whose clock is wrong with `timedatectl`, and set it. Records with wrong "
    "timestamps may count as late, or be deleted early.",
    ReasonCode.ERRORS_LOGGED: "Look at the log of the instance.",
}


def _notices(seen: GroupObservation) -> Reasons:
    """Yields one reason for each code. Its count is the sum over all processes, also over those that have ended. Its
    text is the newest notice.
    """
    by_code: dict[str, list[ReceivedNotice]] = {}
    for received in seen.notices:
        by_code.setdefault(received.notice.code, []).append(received)
    for name, received_notices in by_code.items():
        code = ReasonCode(name) if name in _NOTICE_CODES else ReasonCode.OTHER_NOTICE
        newest = max(received_notices, key=lambda each: each.received_at_ms)
        count = sum(each.notice.count for each in received_notices)
        places = tuple(dict.fromkeys(_instance_name(seen, each.process) for each in received_notices))
        text = newest.notice.text.rstrip(".")
        more = f" (the newest of {len(places)} instances, which report {count:,} together)" if len(places) > 1 else ""
        yield HealthReason(
            HealthLevel.DEGRADED,
            code,
            f"{_NOTICE_TITLES[code]}: {text}{more}.",
            _NOTICE_ACTIONS.get(code),
            # not `at_ms` of the notice, which is the time of another clock
            since_ms=min(each.since_ms for each in received_notices),
            last_ms=newest.received_at_ms,
            where=places,
            count=count,
        )


def _instance_name(seen: GroupObservation, process: str) -> str:
    if process in seen.instances:
        return seen.instances[process]
    ended = names_of_ended((end.process_id, end.client_id) for end in seen.image.ends)
    return ended.get(process, process)


_NOTICE_TITLES = {
    ReasonCode.RECORDS_PASSED_OVER: "The log deleted records before the group read them",
    ReasonCode.POSITION_BEYOND_END: "A position is beyond the end of its topic",
    ReasonCode.RECORDS_DEAD_LETTERED: "Records failed",
    ReasonCode.RECORDS_DROPPED: "Records were dropped",
    ReasonCode.STORE_REBUILT: "A store was rebuilt",
    ReasonCode.WINDOWS_MISSING: "A restored store lacks windows",
    ReasonCode.WINDOWS_AT_RISK: "A restore would lose windows",
    ReasonCode.TIMESTAMP_UNIT: "Timestamps are probably not in milliseconds",
    ReasonCode.CLOCK_WRONG: "A clock is wrong",
    ReasonCode.ERRORS_LOGGED: "An instance logged errors",
    ReasonCode.WARNINGS_LOGGED: "An instance logged warnings",
    ReasonCode.OTHER_NOTICE: "An instance reports",
}
_NOTICE_CODES = frozenset(_NOTICE_TITLES) - {ReasonCode.OTHER_NOTICE}


def _rebalancing(seen: GroupObservation) -> Reasons:
    image, since_ms = seen.image, seen.rebalancing_since_ms
    if image.draining:
        yield HealthReason(HealthLevel.BUSY, ReasonCode.DRAINING, "Members are told to stop.")
    if image.state is GroupState.PREPARING_REBALANCE:
        joined = image.members.count_joined_after(image.generation_id)
        waits = f"{joined:,} of {len(image.members):,} members have rejoined"
        if since_ms is not None and seen.now_ms - since_ms >= SLOW_REBALANCE_MS:
            late = _threads(each.member_id for each in image.members.values() if not image.has_joined(each))
            yield HealthReason(
                HealthLevel.DEGRADED,
                ReasonCode.SLOW_REBALANCE,
                f"The rebalance waits for members: {waits}. Not yet: {_listed(late)}.",
                "A member rejoins between two records: look for one that takes long, or stop its instance.",
                since_ms=since_ms,
                where=late[:_MOST_PLACES],
                count=len(late),
            )
        else:
            text = f"A rebalance has begun: {waits}."
            yield HealthReason(HealthLevel.BUSY, ReasonCode.REBALANCING, text, since_ms=since_ms)
    elif image.state is GroupState.COMPLETING_REBALANCE and image.held is None and seen.cluster.error is None:
        text = "The assignment is being computed."
        yield HealthReason(HealthLevel.BUSY, ReasonCode.REBALANCING, text, since_ms=since_ms)


_BEHIND = {
    Role.ACTIVE: (ReasonCode.RESTORING, "Tasks that restore their state before they process records"),
    Role.WARM_UP: (ReasonCode.WARMING_UP, "Tasks that warm up on their next owner"),
    Role.STANDBY: (ReasonCode.STANDBYS_BEHIND, "Standbys that are behind"),
}


def _behind(seen: GroupObservation) -> Reasons:
    """Yields a reason for each role with copies that have records to read. A standby within the acceptable lag is not
    behind.
    """
    for role, (code, named) in _BEHIND.items():
        accepted = seen.acceptable_lag if role is Role.STANDBY else 0
        lags = {copy: copy.lag for copy in seen.copies or () if copy.role is role and copy.lag is not None}
        behind = {copy: lag for copy, lag in lags.items() if lag > accepted}
        if behind:
            is_stuck = role is Role.STANDBY and all(copy.left_ms is None for copy in behind)
            yield HealthReason(
                HealthLevel.DEGRADED if is_stuck else HealthLevel.BUSY,
                code,
                f"{named}: {len(behind):,}, with {counted(sum(behind.values()), 'record')} left.",
                where=tuple(dict.fromkeys(copy.task for copy in behind))[:_MOST_PLACES],
                count=len(behind),
            )


def _threads(member_ids: Iterable[str]) -> tuple[str, ...]:
    """Names of threads, as people read them."""
    return tuple(short_members(member_ids).values())


def _quoted(names: Iterable[str]) -> Iterator[str]:
    return (f"`{name}`" for name in names)


def _listed(names: Iterable[str]) -> str:
    """The first names, separated by commas, and the number of further names."""
    every = tuple(names)
    more = f" and {len(every) - _NAMES_IN_TEXT} more" if len(every) > _NAMES_IN_TEXT else ""
    return ", ".join(every[:_NAMES_IN_TEXT]) + more


def _broken(
    seen: GroupObservation,
    code: ReasonCode,
    text: str,
    action: str,
    command: str | None = None,
    where: tuple[str, ...] = (),
) -> HealthReason:
    """A reason of level broken that lasts since the end of the last rebalance."""
    return HealthReason(HealthLevel.BROKEN, code, text, action, command, seen.rebalanced_at_ms, where=where)


_RULES: tuple[Callable[[GroupObservation], Reasons], ...] = (
    _failing_store,
    _expired_tokens,
    _ended_instances,
    _broken_connections,
    _other_application,
    _failed_rebalance,
    _no_instances,
    _paused,
    _unmatched_patterns,
    _no_tasks,
    _ownerless_tasks,
    _held_rebalance,
    _stalled_warm_ups,
    _growing_lag,
    _cluster,
    _notices,
    _mixed_releases,
    _restarted,
    _rebalancing,
    _behind,
)
