"""`input.steering` of rebalance/1: what operators asked of the rebalance. Absent when they asked for nothing."""

from __future__ import annotations

from assignor.recording.fields import Fields, as_boolean, as_process_id, as_text, list_items
from assignor.steering import Steering
from assignor.types import ProcessId


def as_steering(value: object, where: str) -> Steering:
    """Raises InputError."""
    fields = Fields(value, where, (), ("drained_processes", "drained_members", "keeps_owned", "away_processes"))
    return Steering(
        drained_processes=frozenset(fields.read_or_none("drained_processes", _as_process_ids) or ()),
        drained_members=frozenset(fields.read_or_none("drained_members", _as_texts) or ()),
        keeps_owned=bool(fields.read_or_none("keeps_owned", as_boolean)),
        away_processes=frozenset(fields.read_or_none("away_processes", _as_process_ids) or ()),
    )


def _as_process_ids(value: object, where: str) -> list[ProcessId]:
    return [as_process_id(item, at) for item, at in list_items(value, where)]


def _as_texts(value: object, where: str) -> list[str]:
    return [as_text(item, at) for item, at in list_items(value, where)]


def steering_document(steering: Steering) -> dict[str, object]:
    """Fields that say nothing are left out."""
    document: dict[str, object] = {}
    if steering.drained_processes:
        document["drained_processes"] = [str(process) for process in sorted(steering.drained_processes)]
    if steering.drained_members:
        document["drained_members"] = sorted(steering.drained_members)
    if steering.keeps_owned:
        document["keeps_owned"] = True
    if steering.away_processes:
        document["away_processes"] = [str(process) for process in sorted(steering.away_processes)]
    return document
