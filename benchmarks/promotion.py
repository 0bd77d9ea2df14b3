"""How soon a group that grows has its tasks where they belong, when warm-ups are handed over once they have caught up.

The peer is the same group as Kafka leads it: warm-ups wait for the probing deadline, ten minutes by default.

Both run on a simulated clock, with the real group, the real assignor and the rule by which the coordinator looks. With
promotion it runs once more for real: a coordinator in a process of its own, members over HTTP, and the clock on the
wall. Instances restore at a fixed rate.
"""

import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.table import Table

from benchmarks.simulated_promotion import restored_after, simulated_growth
from tests.coordinator_api.group_members import CHANGELOG, HttpMember, definition, new_group, settle
from tests.coordinator_api.service_process import ServiceProcess
from tests.coordinator_api.working_instance import WorkingInstance

RECORDS_A_SECOND = 10_000
KAFKAS, PROMOTED, REAL = "at the probing deadline, as Kafka", "when caught up", "when caught up, over HTTP"
_QUICK = ("--group-initial-rebalance-delay-ms", "50")
_HEARTBEAT_S = 0.1
_LONGEST_S = 600.0


@dataclass(frozen=True, slots=True)
class Growing:
    """One instance runs all `tasks`, and a second one joins. `records`: in the changelog of each task."""

    tasks: int
    records: int

    def definition(self) -> dict[str, Any]:
        """Everything is Kafka's default: two warm-ups at a time, ten minutes, 10,000 records behind is caught up."""
        return definition(self.tasks, configs={}, changelog_end_offsets={CHANGELOG: [self.records] * self.tasks})


GROWING = Growing(tasks=8, records=100_000)
QUICK_GROWING = Growing(tasks=2, records=20_000)


def run(console: Console, *, quick: bool = False) -> None:
    """Print the seconds from the join of the second instance until each has half of the tasks, with their ratio."""
    growing = QUICK_GROWING if quick else GROWING
    found = {
        KAFKAS: simulated_growth(growing.definition(), RECORDS_A_SECOND, promotes=False),
        PROMOTED: simulated_growth(growing.definition(), RECORDS_A_SECOND, promotes=True),
        REAL: _real_growth(growing),
    }
    title = f"1 to 2 instances, {growing.tasks} tasks of {growing.records:,} records, restored at "
    table = Table(title=f"{title}{RECORDS_A_SECOND:,} records/s")
    for column in ("warm-ups are handed over", "clock", "until balanced, s", "rebalances", "sooner"):
        table.add_column(column, justify="left" if column in ("warm-ups are handed over", "clock") else "right")
    kafkas, _ = found[KAFKAS]
    for name, (seconds, rebalances) in found.items():
        clock = "real" if name == REAL else "simulated"
        table.add_row(name, clock, f"{seconds:,.1f}", str(rebalances), f"{kafkas / seconds:.1f}")
    console.print(table)


class _RestoringInstance(WorkingInstance):
    """Restores at the fixed rate, by the clock on the wall."""

    def __init__(self, client: httpx.Client, group_id: str, records: int) -> None:
        super().__init__(client, group_id)
        self._records = records
        self._known: dict[str, float] = {}
        self._looked_s = time.monotonic()

    def restored(self) -> dict[str, int]:
        now_s = time.monotonic()
        records = (now_s - self._looked_s) * RECORDS_A_SECOND
        self._known = restored_after(self._known, self.standby, records, self._records)
        self._looked_s = now_s
        return {task: int(known) for task, known in self._known.items()}


def _real_growth(growing: Growing) -> tuple[float, int]:
    """As `simulated_growth`, with promotion."""
    with tempfile.TemporaryDirectory(prefix="bench-promotion-") as directory, ExitStack() as opened:
        service = opened.enter_context(ServiceProcess(Path(directory), *_QUICK))
        with service.client() as client:
            group_id = new_group(client, **growing.definition())
            first, second = (_RestoringInstance(client, group_id, growing.records) for _ in range(2))
            assert first.subscribe().status_code == 201
            settle(first)
            assert client.put(f"{first.path}/promotion").status_code == 204
            began_s, generation_id = time.monotonic(), first.generation_id
            assert second.subscribe().status_code == 201
            while not _is_balanced(first, second):
                assert time.monotonic() - began_s < _LONGEST_S, client.get(first.path).text
                time.sleep(_HEARTBEAT_S)
                first.works()
                second.works()
            return time.monotonic() - began_s, second.generation_id - generation_id


def _is_balanced(first: HttpMember, second: HttpMember) -> bool:
    known = first.client.get(first.path).json()
    settled = known["state"] == "Stable" and known["last_rebalance"]["outcome"] == "stable"
    return bool(settled and first.generation_id == second.generation_id == known["generation_id"])
