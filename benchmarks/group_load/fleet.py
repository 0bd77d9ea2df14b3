"""Members of a group that do over HTTP what the runtime does, thousands of them in one event loop.

A process of N threads is N members, as with the runtime. There are two kinds. `held`: a process has one heartbeat for
all of its members, which the coordinator holds until there is news. Not `held`: each member's heartbeat is a call of
its own, and it waits for its assignment in a GET that is held.

The members check what they get: `Fleet.holdings` says whether a task ever had two holders, `Fleet.evictions` how often
the group did not know a member that lived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from benchmarks.group_load.fleet_record import FleetRecord
from benchmarks.group_load.heartbeats import Heartbeats
from benchmarks.group_load.http_calls import Connections, request
from benchmarks.group_load.member import Member, ProcessIdentity


class MemberProcess:
    """One process of the application. `start` it; `kill` breaks its connections, as a SIGKILL does."""

    def __init__(self, fleet: Fleet, number: int) -> None:
        plan = fleet.plan
        self._fleet = fleet
        # a member whose GET is held keeps its connection, so each needs one of its own
        self.calls = Connections(fleet.url, plan.calls_at_once if plan.held else plan.threads)
        self._heartbeats = Heartbeats(fleet, self._run)
        identity = ProcessIdentity.of(plan, number)
        self.members = [Member(fleet, identity, thread, self.calls, self._heartbeats) for thread in range(plan.threads)]
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        for member in self.members:
            self._run(member.run())
        self._heartbeats.begin(self.members)

    def kill(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._heartbeats.close()
        self.calls.close()
        for member in self.members:
            member.end()

    async def leave(self) -> None:
        """In good order: every member stops its tasks and leaves the group."""
        for task in self._tasks:
            task.cancel()
        for member in self.members:
            member.end()
            if member.member_id is not None:
                await self.calls.call(request("DELETE", f"{self._fleet.plan.path}/members/{member.member_id}"))
        self._heartbeats.close()
        self.calls.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fleet.fail(task.exception())


@dataclass(slots=True)
class Fleet(FleetRecord):
    """All processes that one driver runs for one group."""

    processes: list[MemberProcess] = field(default_factory=list)

    @property
    def members(self) -> list[Member]:
        return [member for process in self.processes for member in process.members]

    def start(self, processes: int | None = None) -> list[MemberProcess]:
        """That many more processes (None: all of the plan) begin to join, all at once."""
        first = self.plan.first + len(self.processes)
        started = [
            MemberProcess(self, first + number)
            for number in range(self.plan.processes if processes is None else processes)
        ]
        self.processes += started
        for process in started:
            self.not_at_rest.update(process.members)
            process.start()
        return started

    def kill(self, process: MemberProcess) -> None:
        """As SIGKILL ends a process: its connections break, and it says nothing."""
        process.kill()
        self._gone(process)

    async def leave(self, process: MemberProcess) -> None:
        await process.leave()
        self._gone(process)

    def close(self) -> None:
        """Every process, as `kill`."""
        for process in list(self.processes):
            self.kill(process)

    async def at_rest_in(self, generation_id: int, longest_s: float) -> int:
        """Wait until all members hold assignments of one generation, this or a later one, and none of them is about to
        rejoin. Returns that generation. Raises TimeoutError, and whatever a member failed of.
        """
        async with asyncio.timeout(longest_s):
            while True:
                if self.fault is not None:
                    raise self.fault
                reached = {member.generation_id for member in self.members} if not self.not_at_rest else set()
                if len(reached) == 1 and min(reached) >= generation_id:
                    return min(reached)
                self.changed.clear()
                await self.changed.wait()

    def _gone(self, process: MemberProcess) -> None:
        self.processes.remove(process)
        self.not_at_rest.difference_update(process.members)
        self.changed.set()
