"""The CPU of a heartbeat at the coordinator, with the flow of its tasks and without.

The members process all the time: each offset sum and each flow differs from the one before. `of a member`: the call of
one member. `of a process`: the call of a process with all its members, which the runtime sends. The peer is the same
heartbeat without flows, on the same coordinator, in turns.
"""

import json
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.group_load.figures_of_a_turn import GROUP, calls
from benchmarks.group_load.service import ServiceUnderLoad
from benchmarks.processor_time import processor_s
from benchmarks.steady_calls import Driver
from benchmarks.turns import in_turns, load_average
from tests.acceptance.fleet.http_connection import request_bytes
from tests.browser.few_members import FewMembers
from tests.coordinator_api.group_members import HttpMember

MOST_RATIO = 1.05
TURNS, QUICK_TURNS = 11, 1
HEARTBEATS, QUICK_HEARTBEATS = 8_000, 200
MEMBERS, QUICK_MEMBERS = 200, 8
TASKS_EACH = 5
THREADS = 2
AT_ONCE = 4


@dataclass
class Members:
    """The heartbeats of the members of a group."""

    members: Sequence[HttpMember]
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def of_a_member(self, *, with_flow: bool) -> Iterator[bytes]:
        while True:
            for member in self.members:
                yield _request(f"members/{member.member_id}/heartbeat", self._body(member, with_flow=with_flow))

    def of_a_process(self, *, with_flow: bool) -> Iterator[bytes]:
        while True:
            for first in range(0, len(self.members), THREADS):
                process = self.members[first : first + THREADS]
                bodies = {str(member.member_id): self._body(member, with_flow=with_flow) for member in process}
                yield _request("heartbeat", {"members": bodies})

    def _body(self, member: HttpMember, *, with_flow: bool) -> dict[str, Any]:
        number = next(self.numbers)
        sums = dict.fromkeys(member.active, number)
        body: dict[str, Any] = {"generation_id": member.generation_id, "task_offset_sums": sums}
        if with_flow:
            body["task_flows"] = {task: [number % 50, 100 + number % 90, number] for task in member.active}
        return body


def run(console: Console, *, quick: bool = False) -> None:
    number, turns = (QUICK_MEMBERS, QUICK_TURNS) if quick else (MEMBERS, TURNS)
    heartbeats = QUICK_HEARTBEATS if quick else HEARTBEATS
    with (
        tempfile.TemporaryDirectory(prefix="heartbeat-flow-") as directory,
        ServiceUnderLoad(Path(directory)) as service,
        service.client() as client,
        Driver() as driver,
    ):
        group = FewMembers(client, GROUP).declare(partitions=number * TASKS_EACH, configs={}).join(number)
        members = Members(group.members)

        def cpu_us(requests: Callable[..., Iterator[bytes]], *, with_flow: bool) -> float:
            sent = list(islice(requests(with_flow=with_flow), heartbeats))
            before_s = processor_s(service.pid)
            driver.run(calls, service.url, sent, AT_ONCE)
            return (processor_s(service.pid) - before_s) / heartbeats * 1e6

        shapes: Mapping[str, Callable[..., Iterator[bytes]]] = {
            f"of a member, {TASKS_EACH} tasks": members.of_a_member,
            f"of a process, {TASKS_EACH * THREADS} tasks": members.of_a_process,
        }
        runs = {
            (shape, flow): partial(cpu_us, requests, with_flow=flow)
            for shape, requests in shapes.items()
            for flow in (False, True)
        }
        found = in_turns(runs, turns)
    table = Table(title="The CPU of a heartbeat at the coordinator", caption=load_average())
    for column in ("heartbeat", "without flows, µs", "with flows, µs", "ratio", "goal"):
        table.add_column(column, justify="left" if column == "heartbeat" else "right")
    for shape in shapes:
        without, with_flows = found[shape, False], found[shape, True]
        ratio = statistics.median(flows / peer for flows, peer in zip(with_flows, without, strict=True))
        medians = [f"{statistics.median(each):,.0f}" for each in (without, with_flows)]
        table.add_row(shape, *medians, f"{ratio:.2f}", f"at most {MOST_RATIO:.2f}")
    console.print(table)


def _request(path: str, body: dict[str, Any]) -> bytes:
    return request_bytes("POST", f"/v1/groups/{GROUP}/{path}", json.dumps(body, separators=(",", ":")).encode())
