"""The line of progress for a led rebalance: its members, the tasks that moved, the reason, and the time it took."""

from __future__ import annotations

from datetime import UTC, datetime

from assignor.names import InstanceNames
from assignor.recording import RecordedRebalance
from assignor.types import AssignorErrorCode
from kafka_groups.leader.led_rebalance import LedRebalance
from rebalance_analysis.history import PastRebalance, TriggerKind
from rebalance_analysis.history.past_rebalance import SeenRebalance, see
from rebalance_analysis.measures import measure
from rebalance_analysis.presentation.rebalances import triggers_text
from rebalance_analysis.rerun import RerunRebalance

_TOPICS_SHOWN = 5


def seen_rebalance(
    group: str, generation_id: int, now_ms: int, led: LedRebalance, before: SeenRebalance | None
) -> SeenRebalance:
    """This rebalance compared with the last one that this leader led."""
    recorded = RecordedRebalance(
        f"{group}-{generation_id}", group, generation_id, now_ms, source="kafka", snapshot=led.snapshot
    )
    return see(PastRebalance(generation_id, RerunRebalance(recorded, led.result)), before)


def why_in_words(now: SeenRebalance, before: SeenRebalance | None, own_reason: str) -> str:
    """The trigger of the rebalance, as far as it is known. `own_reason`: why this leader rejoined, empty if it did
    not.
    """
    triggers = now.facts.triggers
    told_by_members = any(trigger.kind not in (TriggerKind.FIRST, TriggerKind.REJOINED) for trigger in triggers)
    if not told_by_members and own_reason:
        return own_reason
    if before is None:
        return "it is the first that this leader leads"
    names = InstanceNames({**before.instances(), **now.instances()})
    return triggers_text(triggers, names, None)


def progress_text(generation_id: int, led: LedRebalance, why: str, took_ms: int) -> str:
    """`took_ms`: from the members' subscriptions until the brokers have their assignments."""
    result, members = led.result, len(led.snapshot.members)
    head = f"generation {generation_id}: {_count(members, 'member')}"
    tail = f"; because {why}; {took_ms} ms" if why else f"; {took_ms} ms"
    if result.error_code is not AssignorErrorCode.NONE:
        return f"{head}; sent {result.error_code.name} to every member{_missing(led)}{tail}"
    assert result.problem is not None, "a rebalance without an error has a placement"
    assert result.placement is not None
    measures = measure(result.problem, result.placement)
    placed = result.placement.clients.values()
    standby = sum(len(client.standby - client.warm_ups) for client in placed)
    parts = [
        f"{head} of {_count(measures.clients, 'process', 'processes')}",
        f"{sum(len(client.active) for client in placed)} active, {standby} standby, {measures.warm_ups} warm-up tasks",
        f"{measures.active_moved} moved",
    ]
    if result.created_topics:
        parts.append(f"{_count(len(result.created_topics), 'internal topic')} created")
    if result.followup_rebalance:
        parts.append("a follow-up rebalance comes when tasks are given up")
    if result.probing_rebalance_at_ms is not None:
        parts.append(_probing(result.probing_rebalance_at_ms, led))
    return f"{', '.join(parts)}{tail}"


def _probing(at_ms: int, led: LedRebalance) -> str:
    try:
        at = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        at = f"{at_ms} ms"
    carrier = led.snapshot.leader_process_id
    return f"probing at {at} by {'this leader' if carrier is None else f'process {str(carrier)[:8]}'}"


def _missing(led: LedRebalance) -> str:
    subtopologies = led.snapshot.topology.subtopologies
    repartition = {topic.name for each in subtopologies for topic in each.repartition_source_topics}
    read = {topic for each in subtopologies for topic in each.source_topics}
    missing = sorted(read - repartition - led.snapshot.cluster.topics.keys())
    return f" (missing: {', '.join(missing[:_TOPICS_SHOWN])})" if missing else ""


def _count(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
