"""A coordinator that can be killed, and a fleet of processes on it; what has to be true of both in the end."""

import asyncio
import json
import random
import re
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.acceptance.fleet.fleet_process import FleetProcess, Manners, Member
from tests.acceptance.fleet.http_connection import Address, Answer, HttpConnection, NoAnswer, Route
from tests.acceptance.fleet.witness import Witness
from tests.coordinator_api.group_members import definition
from tests.coordinator_api.service_process import ServiceProcess
from tests.package.test_deployment import free_port

_REMOVED = re.compile(r'"event": "member_removed"')


class MortalService:
    """`assignor serve` on one port for all of its lives, with its log as JSON."""

    def __init__(self, directory: Path, *flags: str, environment: Mapping[str, str] | None = None) -> None:
        self.address = Address("127.0.0.1", free_port())
        # of members that change together, each is named on the level of debugging only
        log = ("--log-format", "json", "--log-level", "debug")
        self._service = ServiceProcess(
            directory, "--port", str(self.address.port), *log, *flags, environment=environment
        )
        self.deaths = 0

    @property
    def pid(self) -> int:
        return self._service.process.pid

    async def start(self) -> None:
        await asyncio.to_thread(self._service.start)

    @property
    def database(self) -> Path:
        return self._service.directory / "assignor.sqlite3"

    @property
    def log(self) -> list[str]:
        """Of all lives."""
        return self._service.log

    async def kill(self) -> None:
        self.deaths += 1
        await asyncio.to_thread(self._service.kill)

    async def kill_and_start(self) -> None:
        await self.kill()
        await self.start()

    async def stop(self) -> int:
        return await asyncio.to_thread(self._service.stop)

    def signal(self, number: signal.Signals) -> None:
        self._service.process.send_signal(number)

    def removed(self) -> dict[str, str]:
        """Member id to the reason for which it was removed, over all lives; who left by itself is not named."""
        lines = [json.loads(line) for line in self._service.log if _REMOVED.search(line)]
        return {line["member"]: line["reason"] for line in lines if line["reason"] != "left"}

    def close(self) -> None:
        self._service.__exit__()


class Fleet:
    """Processes of one group, with what they witness. `address`: of the service, or of several of one database.
    `first`: the number before that of its first process.
    """

    def __init__(
        self,
        address: Address | Sequence[Address],
        group_id: str,
        partitions: int,
        seed: int,
        *,
        witness: Witness | None = None,
        first: int = 0,
    ) -> None:
        self.group_id = group_id
        self.partitions = partitions
        self.addresses = (address,) if isinstance(address, Address) else tuple(address)
        self.address = self.addresses[0]
        self.witness = witness or Witness()
        self.processes: list[FleetProcess] = []
        self.chance = random.Random(seed)
        self._started = first
        self._measured: asyncio.Task[None] | None = None

    async def declare(self, **changes: object) -> None:
        configs = {"acceptable.recovery.lag": 1_000_000, "num.standby.replicas": 0, **changes.pop("configs", {})}  # type: ignore[dict-item]
        document = definition(self.partitions, configs=configs, **changes)
        answer = await self._ask("PUT", document)
        assert answer.status in (200, 201), answer

    def add(self, count: int, manners: Manners, through: Address | None = None, members: int = 2) -> list[FleetProcess]:
        """`count` more processes, which begin to join at once."""
        if self._measured is None:
            self._measured = asyncio.create_task(self.witness.starvation.measure())
        added = []
        for _ in range(count):
            self._started += 1
            chance = random.Random(self.chance.random())
            process = FleetProcess(
                self._started, through or self.addresses, manners, self.witness, chance, members=members
            )
            process.start()
            added.append(process)
        self.processes += added
        return added

    def kill(self, processes: Iterable[FleetProcess]) -> None:
        for process in list(processes):
            process.die()
            self.processes.remove(process)

    async def leave(self, processes: Iterable[FleetProcess]) -> None:
        leaving = list(processes)
        for process in leaving:
            self.processes.remove(process)
        await asyncio.gather(*(process.leave() for process in leaving))

    def members(self) -> list[Member]:
        return [member for process in self.processes for member in process.members]

    async def until(self, condition: Callable[[], bool], what: str, timeout_s: float = 120.0) -> None:
        """Asked again whenever something has happened to a member. `timeout_s`: in which the fleet had a processor.

        Raises AssertionError, which says where the fleet stands, when it does not come true, or when a member met what
        it does not expect.
        """
        left_s = timeout_s
        while left_s > 0:
            starved_ms = self.witness.starvation.total_ms
            try:
                async with asyncio.timeout(left_s):
                    await self._until(condition)
                    return
            except TimeoutError:
                left_s = (self.witness.starvation.total_ms - starved_ms) / 1000
        raise AssertionError(f"waited {timeout_s} s for {what}: {self.standing()}")

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            assert self.witness.surprises == [], self.witness.surprises
            self.witness.changed.clear()
            await self.witness.changed.wait()

    async def until_at_rest(self, beyond: int, timeout_s: float = 120.0) -> int:
        """Until all members hold one generation above `beyond`, which is given back, and none is about to rejoin."""
        await self.until(lambda: self._is_at_rest(beyond), "all members to be at rest", timeout_s)
        return self.members()[0].generation_id

    async def until_settled(self, beyond: int = -1, timeout_s: float = 120.0) -> int:
        """As `until_at_rest`, and every task has one owner."""

        def settled() -> bool:
            return self._is_at_rest(beyond) and sorted(
                partition for member in self.members() for partition in member.active
            ) == list(range(self.partitions))

        await self.until(settled, "every task to have one owner", timeout_s)
        return max(member.generation_id for member in self.members())

    def _is_at_rest(self, beyond: int) -> bool:
        members = self.members()
        first = members[0].generation_id
        return first > beyond and not any(
            member.generation_id != first or member.awaited > first or member.rejoin or member.joining
            for member in members
        )

    def standing(self) -> str:
        """Where the fleet stands, for people."""
        members = self.members()
        owned = [partition for member in members for partition in member.active]
        generations = sorted({member.generation_id for member in members})
        waiting = sum(member.awaited > member.generation_id for member in members)
        return (
            f"{len(members)} members in generations {generations[:5]}, {waiting} wait for an assignment; "
            f"{len(set(owned))} of {self.partitions} tasks owned, {len(owned) - len(set(owned))} twice; "
            f"evictions {self.witness.evictions[:5]}, {len(self.witness.starved)} of the starved, who got no processor "
            f"for {self.witness.starvation.total_ms / 1000:.1f} s in all; surprises {self.witness.surprises[:5]}; "
            f"answers {dict(self.witness.statuses)}"
        )

    async def describe(self) -> dict[str, Any]:
        """As soon as the service is not too busy for it."""
        answer = await self._ask("GET")
        assert answer.status == 200, answer
        document: dict[str, Any] = answer.document()
        return document

    async def _ask(self, method: str, body: object = None) -> Answer:
        """About the group itself. Of several coordinators, until one answers."""
        calls = HttpConnection(Route(self.addresses))
        not_now = (429, 503) if len(self.addresses) > 1 else (429,)
        for _ in range(60):
            try:
                answer = await calls.ask(method, f"/v1/groups/{self.group_id}", body, answer_timeout_s=60)
            except NoAnswer:
                if len(self.addresses) == 1:
                    raise
                await asyncio.sleep(1)
                continue
            if answer.status not in not_now:
                break
            await asyncio.sleep(answer.retry_after_s())
        return answer

    async def assert_whole(self, *services: MortalService) -> None:
        """Nobody who could speak was evicted, no task was owned twice, no answer was taken back; members and tasks are
        those that the service describes, and every task has its owner.
        """
        assert self.witness.surprises == [], self.witness.surprises
        assert self.witness.evictions == [], self.standing()
        live = {member.member_id for member in self.members()}
        for service in services:
            removed = {member_id: reason for member_id, reason in service.removed().items() if member_id in live}
            assert removed == {}
        assert self.witness.taken_back == [], self.witness.taken_back
        assert self.witness.owned_twice() == []
        assert self.witness.ownerless() == []
        described = await self.describe()
        assert {entry["member_id"] for entry in described["members"]} == live
        assert described["state"] == "Stable", described["condition"]
        active = sorted(entry["task"] for entry in described["tasks"] if entry["role"] == "active")
        assert active == sorted(f"0_{partition}" for partition in range(self.partitions))

    def close(self) -> None:
        for process in self.processes:
            process.die()
        if self._measured is not None:
            self._measured.cancel()
