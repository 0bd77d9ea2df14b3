"""`/v1/groups/{group}/log` and `/repair`: the stored log of a group, and the repair of a log that cannot be read."""

import base64
from collections.abc import Iterator
from typing import Annotated, Literal

from fastapi import Query, Response
from fastapi.responses import StreamingResponse
from pydantic_core import to_json

from coordinator_api.http.dependencies import GroupId, TheCoordinator, named_router, problems
from coordinator_api.http.models.group_models import (
    DroppedOfLog,
    KeptOfLog,
    RepairAnswer,
    StoredLogAnswer,
    StoredRecordAnswer,
)
from coordinator_api.store.stored_logs import GroupRepair, StoredLog, StoredRecord, damage_of

router = named_router(prefix="/v1/groups/{group}", tags=["logs"], responses=problems(404))

FORMAT: Literal["group-log/1"] = "group-log/1"
PIECE_RECORDS = 64
"""The number of records in one piece of the answer. Most records have a few hundred bytes. The record of a large
rebalance has a few hundred kilobytes.
"""


@router.get("/log", responses={200: {"model": StoredLogAnswer}})
async def export_log(group_id: GroupId, coordinator: TheCoordinator) -> Response:
    """Returns the log of a group as it is stored, even a log that this service cannot read.

    `problem`: the reason why the log cannot be read; null when it can be read. Save the log before you repair it.
    """
    stored, problem = await coordinator.stored_log(group_id)
    return StreamingResponse(_pieces(stored, problem), media_type="application/json")


@router.post("/repair", responses=problems(404, 409))
async def repair_log(
    group_id: GroupId,
    coordinator: TheCoordinator,
    execute: Annotated[bool, Query(description="Carry out the repair. By default nothing is changed.")] = False,
) -> RepairAnswer:
    """Plan the repair of a log that cannot be read: the answer has the records that the repair keeps and drops. With
    `execute=true`, carry out the repair.

    A repair keeps the complete commits before the damage. The repaired group has no members. The repaired group gets a
    higher generation than any generation that its former members may have got. The service leads the repaired group at
    once. The former members get `UNKNOWN_MEMBER_ID` and join again by themselves. If the service still leads the group,
    the repair writes the log from memory, and nothing is lost. If the log can be read, the status is 409
    `INCONSISTENT_GROUP_PROTOCOL`. If no record can be kept, the status is 409 `CORRUPT_MESSAGE`.
    """
    return _answer(await coordinator.repair(group_id, execute=execute))


def _pieces(stored: StoredLog, problem: str | None) -> Iterator[bytes]:
    """Yields the JSON of a `StoredLogAnswer` in pieces of `PIECE_RECORDS` records, because a log may be large."""
    head = StoredLogAnswer(
        format=FORMAT, group_id=stored.group_id, sequence=stored.sequence, problem=problem, records=[]
    )
    yield to_json(head, ensure_ascii=True).removesuffix(b"]}")
    for start in range(0, len(stored.records), PIECE_RECORDS):
        piece = [_record(stored.group_id, record) for record in stored.records[start : start + PIECE_RECORDS]]
        yield (b"," if start else b"") + to_json(piece, ensure_ascii=True)[1:-1]
    yield b"]}"


def _record(group_id: str, record: StoredRecord) -> StoredRecordAnswer:
    damage = damage_of(group_id, record)
    return StoredRecordAnswer(
        sequence=record.sequence,
        body=record.body,
        body_base64=None if record.raw is None else base64.b64encode(record.raw).decode("ascii"),
        checksum=record.checksum,
        ends_commit=record.ends_commit,
        intact=damage is None,
        problem=damage,
    )


def _answer(repair: GroupRepair) -> RepairAnswer:
    plan = repair.plan
    return RepairAnswer(
        group_id=repair.group_id,
        executed=repair.executed,
        problem=repair.problem,
        generation_id=plan.generation_id,
        kept=KeptOfLog.model_validate(plan),
        dropped=DroppedOfLog(
            records=plan.dropped_records,
            first_record=plan.last_kept + 1 if plan.dropped_records else None,
            last_record=plan.last_kept + plan.dropped_records if plan.dropped_records else None,
            members=list(plan.dropped_members),
            generations=list(plan.dropped_generations),
        ),
        advice=_advice(repair),
    )


def _advice(repair: GroupRepair) -> str:
    if repair.executed:
        return (
            "The group is led again. Its members join again by themselves. The old log is no longer in the store: keep "
            "the copy that you saved."
            if repair.plan.dropped_records or repair.plan.dropped_members
            else "The group is led, and nothing was lost."
        )
    save = f"Save the log first: GET /v1/groups/{repair.group_id}/log, or `assignor groups export {repair.group_id}`."
    return f"Nothing has been changed. {save} Then repair it with execute=true, or `assignor groups repair --execute`."
