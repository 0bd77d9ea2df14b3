"""Coordinators of one PostgreSQL, the first of which owns a group whose members only send heartbeats."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchmarks.group_load.definitions import TOPIC, definition
from benchmarks.group_load.fleet_plan import FleetPlan
from benchmarks.group_load.fleet_process import FleetProcess
from benchmarks.group_load.service import ServiceUnderLoad

GROUP = "called"
TASKS = 100
INITIAL_DELAY_MS = 300
SESSION_MS = 1_800_000
"""The longest: no member has to be heard while others are measured."""

_LONGEST_FORMING_S = 60.0


class PrototypeUnderLoad(ServiceUnderLoad):
    """The one that passes calls on."""

    def _spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "benchmarks.forwarding.prototype", *self._arguments()]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, process_group=0)  # noqa: S603
        self._lifeline = process.stdin
        return process


@dataclass(frozen=True, slots=True)
class Coordinators:
    """`other` sends calls on, as a coordinator does; `prototype` passes them on."""

    owner: ServiceUnderLoad
    other: ServiceUnderLoad
    prototype: ServiceUnderLoad
    member_ids: list[str]
    generation_id: int


@contextmanager
def coordinators(database_url: str, directory: Path, members: int) -> Iterator[Coordinators]:
    """All with their defaults, except that the group does not wait long for its members."""
    settings = {"database.url": database_url, "group.initial.rebalance.delay.ms": INITIAL_DELAY_MS}
    with ExitStack() as stack:
        owner = stack.enter_context(ServiceUnderLoad(directory / "owner", settings))
        owner.declare(GROUP, definition(TASKS))
        other = stack.enter_context(ServiceUnderLoad(directory / "other", settings))
        prototype = stack.enter_context(PrototypeUnderLoad(directory / "prototype", settings))
        for each in (other, prototype):
            each.declare(f"of-{each.pid}", definition(TASKS))  # so that it wants no group of another one
        member_ids, generation_id = _formed(owner, members)
        yield Coordinators(owner, other, prototype, member_ids, generation_id)
        _check_its_place(other, owner)


def _formed(owner: ServiceUnderLoad, members: int) -> tuple[list[str], int]:
    """Members that have an assignment, and whose processes have fallen silent."""
    plan = FleetPlan(GROUP, members, 1, TOPIC, session_timeout_ms=SESSION_MS, leave_on_disconnect=False)
    with FleetProcess(plan, owner.url) as fleet:
        fleet.start()
        generation_id = fleet.at_rest_in(1, _LONGEST_FORMING_S)
        return fleet.member_ids(), generation_id


def _check_its_place(other: ServiceUnderLoad, owner: ServiceUnderLoad) -> None:
    with other.client() as client:
        answer = client.get(f"/v1/groups/{GROUP}")
    assert answer.headers.get("location") == f"{owner.url}/v1/groups/{GROUP}", "the group has moved: measure again"
