"""What a round decided, for people: one line for each member or process."""

from __future__ import annotations

from collections.abc import Iterable

from assignor.protocol.assignment_info import decode_assignment_info
from assignor.protocol.consumer_protocol import decode_assignment
from assignor.rerun import Rerun, RerunPlacement
from assignor.snapshot import RebalanceResult
from assignor.task_assignors.base import Placement
from assignor.types import JAVA_LONG_MAX, AssignorErrorCode, TaskId


def output_text(ran: Rerun) -> str:
    lines = _placement_lines(ran.placement) if isinstance(ran, RerunPlacement) else _result_lines(ran.result)
    return "\n".join([ran.id, *(f"  {line}" for line in lines)])


def _placement_lines(placement: Placement) -> list[str]:
    lines = [
        f"{process_id}: active {_tasks(client.active)}; standby {_tasks(client.standby)}"
        for process_id, client in sorted(placement.clients.items())
    ]
    return [*lines, "probing rebalance needed"] if placement.probing_rebalance_needed else lines


def _result_lines(result: RebalanceResult) -> list[str]:
    if result.error is not None:
        return [f"error: {result.error.as_recorded()}"]
    lines = [_member_line(member_id, raw) for member_id, raw in sorted(result.assignments.items())]
    lines += [f"creates {name} with {topic.partitions} partitions" for name, topic in result.created_topics.items()]
    if result.probing_rebalance_at_ms is not None:
        lines.append(f"probing rebalance at {result.probing_rebalance_at_ms} ms")
    return lines


def _member_line(member_id: str, raw: bytes) -> str:
    info = decode_assignment_info(decode_assignment(raw).user_data or b"")
    if info.err_code:
        return f"{member_id}: {_error_name(info.err_code)}"
    line = f"{member_id}: active {_tasks(set(info.active_tasks))}; standby {_tasks(info.standby_tasks)}"
    if info.next_rebalance_ms == 0:
        return f"{line}; rejoins at once"
    return line if info.next_rebalance_ms == JAVA_LONG_MAX else f"{line}; rejoins at {info.next_rebalance_ms} ms"


def _error_name(code: int) -> str:
    return AssignorErrorCode(code).name if code in set(AssignorErrorCode) else f"error code {code}"


def _tasks(tasks: Iterable[TaskId]) -> str:
    return " ".join(map(str, sorted(tasks))) or "nothing"
