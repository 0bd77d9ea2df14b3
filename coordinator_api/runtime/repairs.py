"""What a repair of a stored log keeps and drops. The rules are in `group/snapshot`, the rows in the store."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator_api.errors import LogBeyondRepair
from coordinator_api.group.image import GroupImage
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.group.snapshot import LoggedRecord, LogRepair, NothingToKeep, plan_repair
from coordinator_api.store.stored_logs import StoredLog, damage_of


@dataclass(frozen=True, slots=True)
class GroupRepair:
    """`problem`: why the log cannot be read. `executed`: whether the store has the new log, and the group is led."""

    group_id: str
    problem: str
    executed: bool
    plan: LogRepair


def planned_repair(stored: StoredLog, limits: GroupLimits, now_ms: int) -> LogRepair:
    """Of a log that cannot be read. Raises LogBeyondRepair."""
    records = [
        LoggedRecord(
            record.sequence,
            None if damage_of(stored.group_id, record) is not None else record.body,
            bool(record.ends_commit),
        )
        for record in stored.records
    ]
    recorded = (stored.recorded_generation,)
    try:
        return plan_repair(stored.group_id, limits, records, stored.sequence, recorded, now_ms)
    except NothingToKeep as error:
        raise LogBeyondRepair(str(error)) from None


def nothing_lost(stored: StoredLog, image: GroupImage) -> LogRepair:
    """The whole state is known, whatever the store has of it."""
    return LogRepair(
        kept_records=len(stored.records),
        last_kept=stored.sequence,
        kept_generation=image.generation_id,
        revision=image.revision,
        generation_id=image.generation_id,
    )
