"""What the history of a group says of rebalances that wait for approval.

A rebalance is recorded as soon as it waits, with the outcome `held` and since when: it can be looked at then, and it is
still there after a crash. When its wait ends, the same transaction writes how, by whom, when and why. What is carried
out gets the outcome that it was computed with. What is computed again with all kept takes its place under the same
generation, and still says that the first one was discarded. One that another rebalance replaced stays `held`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinator_api.group.records import CoordinatorRecord, HeldRebalanceEnded, RebalanceCompleted
from coordinator_api.store.repository import RecordingNote


def waits_since(since_ms: int) -> Mapping[str, object]:
    """`hold` in the summary of a rebalance that waits."""
    return {"since_ms": since_ms, "ended": None, "by": None, "at_ms": None, "reason": None}


def notes_of(records: Iterable[CoordinatorRecord]) -> tuple[RecordingNote, ...]:
    """What `records` say of rebalances that are recorded already."""
    ended: dict[int, HeldRebalanceEnded] = {}
    outcomes: dict[int, str] = {}
    for record in records:
        if isinstance(record, HeldRebalanceEnded):
            ended[record.generation_id] = record
        elif isinstance(record, RebalanceCompleted):
            outcomes[record.generation_id] = str(record.end.outcome)
    return tuple(
        RecordingNote(generation_id, outcomes.get(generation_id), _hold(record))
        for generation_id, record in ended.items()
    )


def _hold(record: HeldRebalanceEnded) -> dict[str, object]:
    decision = record.decision
    return {"ended": str(record.end), "by": decision.by, "at_ms": decision.at_ms, "reason": decision.reason}
