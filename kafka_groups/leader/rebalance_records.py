"""Writes the rebalances of this leader to a file as rebalance/1 lines. Also reports the rebalances to a coordinator,
which shows the group. Also makes a progress line for each rebalance.

Rules: the line of a rebalance is on disk before the next rebalance begins. A crash may leave an incomplete line at the
end of the file, but loses no other line. Only the leader changes the file, so a leader and its standbys may share one
file. If the file cannot be written or the coordinator fails, the rebalance continues. The error is reported as a
progress line.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from assignor.errors import AssignorFault, InputError
from assignor.names.short_names import InstanceNames
from assignor.recording import RecordedRebalance, line_of_document
from assignor.types import AssignorErrorCode
from coordinator_client.calls import CoordinatorAddress
from kafka_groups.leader.led_rebalance import LedRebalance
from kafka_groups.rebalance_reports import report_rebalance
from operating_system.private_files import private_opener, warn_if_readable_by_others
from operating_system.whole_files import input_errors
from rebalance_analysis.history import PastRebalance, TriggerKind
from rebalance_analysis.history.past_rebalance import SeenRebalance, see
from rebalance_analysis.measures import measure
from rebalance_analysis.presentation.quantities import counted, listed, time_text
from rebalance_analysis.presentation.rebalances import triggers_text
from rebalance_analysis.rerun import RerunRebalance

STDOUT = "-"
_MOST_WAITING_REPORTS = 100
_BLOCK = 1 << 16


class RebalanceRecords:
    """Writes the rebalances of this leader to a file, and reports them to a coordinator. `output`: the path of the file
    for rebalances, or `-` for stdout; None to write no rebalances. `coordinator`: the address of the coordinator that
    shows the group; None to report no rebalances.
    """

    def __init__(
        self, output: str | None, coordinator: CoordinatorAddress | None, report: Callable[[str], None]
    ) -> None:
        self._output = output
        self._coordinator = coordinator
        self._report = report
        self._waiting: asyncio.Queue[Mapping[str, object]] = asyncio.Queue(_MOST_WAITING_REPORTS)
        if output is not None and output != STDOUT:
            prepare(output)

    async def add(self, document: Mapping[str, object], interrupted: Sequence[Mapping[str, object]] = ()) -> None:
        """Writes a rebalance, and queues it for a report to the coordinator. `interrupted`: the lines of earlier
        generations that never got an assignment. The lines in `interrupted` are written but not reported, because a
        coordinator does not accept them.
        """
        if self._output is not None:
            try:
                for line in (*interrupted, document):
                    await asyncio.to_thread(append, self._output, line)
            except OSError as error:
                self._report(f"{self._output}: the rebalance cannot be written: {error.strerror}")
        if self._coordinator is not None:
            if self._waiting.full():
                self._waiting.get_nowait()
                self._report("a rebalance is not reported: the coordinator has not answered for too long")
            self._waiting.put_nowait(document)

    async def send_reports(self) -> None:
        """Reports the queued rebalances one after the other, until this call is cancelled."""
        while True:
            await self._send(await self._waiting.get())

    async def send_remaining_reports(self, timeout_s: float) -> None:
        """Reports the rebalances that are still in the queue. Stops after `timeout_s` seconds."""
        try:
            async with asyncio.timeout(timeout_s):
                while not self._waiting.empty():
                    await self._send(self._waiting.get_nowait())
        except TimeoutError:
            self._report("the last rebalances are not reported: the coordinator does not answer")

    async def _send(self, document: Mapping[str, object]) -> None:
        assert self._coordinator is not None, "nothing waits without one"
        try:
            await asyncio.to_thread(report_rebalance, self._coordinator, document)
        except AssignorFault as error:
            self._report(f"the rebalance is not reported: {error}")


def prepare(path: str) -> None:
    """Create the file if it does not exist. Raises InputError if the file cannot be written."""
    if path.endswith((".gz", ".parquet")):
        raise InputError("rebalances are appended to a plain file, which ends in .jsonl", path)
    with input_errors("cannot be written", path):
        with open(path, "ab+", opener=private_opener) as file:
            file.seek(0, os.SEEK_END)
        warn_if_readable_by_others(Path(path))


def append(path: str, document: Mapping[str, object]) -> None:
    """Appends the line of a rebalance to a file, and syncs it to disk. If this function raises OSError, no part of the
    line is in the file.
    """
    if path == STDOUT:
        print(line_of_document(document), flush=True)
        return
    with open(path, "ab+", buffering=0, opener=private_opener) as file:
        end = _end_of_last_line(file.fileno(), file.seek(0, os.SEEK_END))
        file.truncate(end)
        try:
            left = memoryview(f"{line_of_document(document)}\n".encode())
            while left:
                left = left[file.write(left) :]
            os.fsync(file.fileno())
        except OSError:
            file.truncate(end)
            raise


def _end_of_last_line(descriptor: int, end: int) -> int:
    while end > 0:
        start = max(0, end - _BLOCK)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def seen_rebalance(
    group: str, generation_id: int, now_ms: int, led: LedRebalance, before: SeenRebalance | None
) -> SeenRebalance:
    """Compares a rebalance with the last rebalance that this leader led (`before`)."""
    recorded = RecordedRebalance(
        f"{group}-{generation_id}", group, generation_id, now_ms, source="kafka", snapshot=led.snapshot
    )
    return see(PastRebalance(generation_id, RerunRebalance(recorded, led.result)), before)


def trigger_text(now: SeenRebalance, before: SeenRebalance | None, own_reason: str) -> str:
    """Returns the trigger of the rebalance as text; empty if no trigger is known. `own_reason`: the reason why this
    leader started the rebalance; empty if this leader did not start it.
    """
    triggers = now.facts.triggers
    is_from_members = any(trigger.kind not in (TriggerKind.FIRST, TriggerKind.REJOINED) for trigger in triggers)
    if not is_from_members and own_reason:
        return own_reason
    if before is None:
        return "it is the first that this leader leads"
    names = InstanceNames({**before.instances(), **now.instances()})
    return triggers_text(triggers, names, None)


def progress_text(generation_id: int, led: LedRebalance, why: str, took_ms: int) -> str:
    """Returns the progress line of a rebalance. `took_ms`: the time from the receipt of the members' subscriptions
    until the brokers have the assignments.
    """
    result, members = led.result, len(led.snapshot.members)
    head = f"generation {generation_id}: {counted(members, 'member')}"
    tail = f"; because {why}; {took_ms} ms" if why else f"; {took_ms} ms"
    if result.error_code is not AssignorErrorCode.NONE:
        return f"{head}; sent {result.error_code.name} to every member{_missing(led)}{tail}"
    assert result.problem is not None, "a rebalance without an error has a placement"
    assert result.placement is not None
    measures = measure(result.problem, result.placement)
    placed = result.placement.clients.values()
    standby = sum(len(client.standby - client.warm_ups) for client in placed)
    parts = [
        f"{head} of {counted(measures.clients, 'process', 'processes')}",
        f"{sum(len(client.active) for client in placed)} active, {standby} standby, {measures.warm_ups} warm-up tasks",
        f"{measures.active_moved} moved",
    ]
    if result.created_topics:
        parts.append(f"{counted(len(result.created_topics), 'internal topic')} created")
    if result.followup_rebalance:
        parts.append("a follow-up rebalance comes when tasks are given up")
    if result.probing_rebalance_at_ms is not None:
        parts.append(_probing(result.probing_rebalance_at_ms, led))
    return f"{', '.join(parts)}{tail}"


def _probing(at_ms: int, led: LedRebalance) -> str:
    carrier = led.snapshot.leader_process_id
    return f"probing at {time_text(at_ms)} by {'this leader' if carrier is None else f'process {str(carrier)[:8]}'}"


def _missing(led: LedRebalance) -> str:
    subtopologies = led.snapshot.topology.subtopologies
    repartition = {topic.name for each in subtopologies for topic in each.repartition_source_topics}
    read = {topic for each in subtopologies for topic in each.source_topics}
    missing = sorted(read - repartition - led.snapshot.cluster.topics.keys())
    return f" (missing: {listed(missing)})" if missing else ""
