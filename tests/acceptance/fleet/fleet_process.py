"""One process of a fleet: some members, one heartbeat for all of them, and what each of them owns.

A process speaks in one of two ways. A `held` one does as this project's runtime: one heartbeat for all of its members
is held until there is news. A plain one makes the calls for single members, as any client of the contract may.
"""

import asyncio
import base64
import contextlib
import random
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from assignor.protocol.consumer_protocol import decode_assignment
from tests.acceptance.fleet.http_connection import (
    ANSWER_TIMEOUT_S,
    Address,
    Answer,
    HttpConnection,
    NoAnswer,
    Route,
    request_bytes,
)
from tests.acceptance.fleet.witness import Eviction, Witness, now_ms
from tests.coordinator_api.group_members import subscription

PAUSE_S = 0.05
LONGEST_PAUSE_S = 0.5
JOINS_TOGETHER_S = 0.1
"""A process's heartbeat waits so long for joins of its members to be answered. Source: the runtime's members."""
GOODBYES = 10


class Refused(Exception):
    """The coordinator said no."""

    def __init__(self, answer: Answer) -> None:
        self.code = answer.code()
        super().__init__(f"{answer.status} {answer.body[:300]!r}")


@dataclass(frozen=True, slots=True)
class Manners:
    """How the processes of a fleet behave. Times in milliseconds.

    `held`: one held heartbeat for all members. `asks_for_grace`: `leave_on_disconnect`, which only a held heartbeat
    makes use of. `repeats_joins`: a `join_id` in each first join. `endpoint`: whether the instances can be asked, so
    that each assignment names them all. `hang_up_chance`: how often a process hangs up in the middle of a call, and
    makes the call again. `grace_ms`: how long the service waits for a process whose connection broke.
    `answer_timeout_ms`: after which a call is made again, elsewhere if there is another coordinator.
    """

    group_id: str
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int = 120_000
    held: bool = True
    asks_for_grace: bool = True
    repeats_joins: bool = True
    endpoint: bool = False
    hang_up_chance: float = 0.0
    grace_ms: float | None = None
    answer_timeout_ms: float = 1_000 * ANSWER_TIMEOUT_S

    @property
    def silence_allowed_ms(self) -> float:
        """A member that is silent for longer may be evicted."""
        watched = self.held and self.asks_for_grace and self.grace_ms is not None
        return self.grace_ms if watched and self.grace_ms is not None else self.session_timeout_ms

    @property
    def path(self) -> str:
        return f"/v1/groups/{self.group_id}"


@dataclass(slots=True)
class Member:
    """One member. `awaited`: the generation whose assignment it waits for. `offered`: the one that it can fetch.

    `rejoin`: it has to join again. `joining`: it has sent that, and has no answer yet.
    """

    name: str
    join_id: str
    member_id: str | None = None
    generation_id: int = 0
    awaited: int = 0
    offered: int = 0
    rejoin: bool = False
    joining: bool = False
    lost: bool = False
    active: frozenset[int] = frozenset()
    news: asyncio.Event = field(default_factory=asyncio.Event)


class FleetProcess:
    """Runs from `start` to `leave` or `die`. `number`: its process id in the witness' lines. `address`: where it calls,
    the service or a proxy, or several coordinators. `state`: of the group, as the last heartbeat said; `beats`: how
    many were answered.
    """

    def __init__(
        self,
        number: int,
        address: Address | Sequence[Address],
        manners: Manners,
        witness: Witness,
        chance: random.Random,
        members: int = 2,
    ) -> None:
        self.number = number
        self.manners = manners
        self.members = [Member(f"p{number}-t{thread}", uuid.uuid4().hex) for thread in range(members)]
        self.beats = 0
        self.state = ""
        self.process_id = str(uuid.uuid4())
        self._route = Route((address,) if isinstance(address, Address) else address)
        self._witness = witness
        self._chance = chance
        self._calls = [HttpConnection(self._route) for _ in self.members]
        self._hearts = [HttpConnection(self._route) for _ in ([0] if manners.held else self.members)]
        self._tasks: list[asyncio.Task[None]] = []
        self._answered_ms = now_ms()
        self._starved_by_then_ms = witness.starvation.total_ms
        self._some_member = asyncio.Event()
        self._join_answered = asyncio.Event()

    @property
    def address(self) -> Address:
        """Where its next call goes."""
        return self._route.current

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._watched(self._membership(member, calls)))
            for member, calls in zip(self.members, self._calls, strict=True)
        ]
        if self.manners.held:
            self._tasks.append(asyncio.create_task(self._watched(self._heartbeat_of_all(self._hearts[0]))))
        else:
            self._tasks += [
                asyncio.create_task(self._watched(self._heartbeat_of_one(member, heart)))
                for member, heart in zip(self.members, self._hearts, strict=True)
            ]

    def die(self) -> None:
        """As SIGKILL does it: nothing is said, and the kernel closes the connections."""
        self._end()
        self._witness.died(self.number)

    def say_nothing(self) -> None:
        """As a process on a network that is gone does it: nothing is said, and no connection is closed."""
        for task in self._tasks:
            task.cancel()
        self._witness.died(self.number)

    async def leave(self) -> None:
        """In good order: tasks first, then the membership."""
        for task in self._tasks:
            task.cancel()
        for member in self.members:
            self._own(member, frozenset(), member.generation_id)
            if member.member_id is not None:
                await self._say_goodbye(member)
        self._end()

    async def _say_goodbye(self, member: Member) -> None:
        """Again, when no answer came: who has left already is told so."""
        for _ in range(GOODBYES):
            try:
                answer = await HttpConnection(self._route).ask("DELETE", self._member_path(member))
            except NoAnswer:
                await asyncio.sleep(LONGEST_PAUSE_S if self._route.has_others else 0)
                continue
            if answer.status not in (429, 503):
                return
            await asyncio.sleep(answer.retry_after_s())

    def request_rejoin(self) -> None:
        """Every member sends its subscription again."""
        for member in self.members:
            member.rejoin = True
            member.news.set()

    def heartbeat_request(self) -> bytes:
        """A heartbeat for all members, as it goes over the wire; its answer is not held."""
        beats = {member.member_id: {"generation_id": member.generation_id} for member in self.members}
        return request_bytes("POST", f"{self.manners.path}/heartbeat?wait_ms=0", {"members": beats})

    def hang_up_other_calls(self) -> None:
        """Break the connections on which no heartbeat goes."""
        for connection in self._calls:
            connection.hang_up()

    @property
    def active(self) -> list[int]:
        return [partition for member in self.members for partition in member.active]

    def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        for connection in (*self._calls, *self._hearts):
            connection.hang_up()

    async def _watched(self, body: Any) -> None:
        try:
            await body
        except asyncio.CancelledError:
            raise
        except Exception as fault:
            self._witness.surprises.append(f"process {self.number}: {fault!r}")
            self._witness.changed.set()

    async def _membership(self, member: Member, calls: HttpConnection) -> None:
        pause_s = PAUSE_S
        while True:
            try:
                await self._one_rebalance(member, calls)
                pause_s = PAUSE_S
            except NoAnswer:
                await asyncio.sleep(self._chance.uniform(0, pause_s))
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            except Refused as refusal:
                if refusal.code == "REBALANCE_IN_PROGRESS":
                    member.rejoin = True
                elif refusal.code == "UNKNOWN_MEMBER_ID":
                    self._evicted(member, "join or fetch")
                else:
                    raise

    async def _one_rebalance(self, member: Member, calls: HttpConnection) -> None:
        """Join where that is due, then wait for the assignment or for news."""
        if member.lost:
            member.lost = False
            member.member_id, member.join_id = None, uuid.uuid4().hex
        if member.member_id is None or member.rejoin:
            member.rejoin = False
            await self._join(member, calls)
        if member.generation_id < member.awaited:
            if self.manners.held:
                await self._await_news(member, lambda: member.offered >= member.awaited)
                if not member.rejoin and not member.lost:
                    await self._fetch(member, calls, wait_ms=0)
            else:
                await self._fetch(member, calls, wait_ms=self.manners.heartbeat_interval_ms)
        else:
            await self._await_news(member, lambda: member.offered > member.generation_id)
            member.awaited = max(member.awaited, member.offered)

    async def _await_news(self, member: Member, wanted: Any) -> None:
        while not (member.rejoin or member.lost or wanted()):
            member.news.clear()
            await member.news.wait()

    def join_body(self, member: Member) -> dict[str, object]:
        """The join or rejoin that the member would send now."""
        body: dict[str, object] = {
            "session_timeout_ms": self.manners.session_timeout_ms,
            "rebalance_timeout_ms": self.manners.rebalance_timeout_ms,
            "client_id": member.name,
            "subscription": base64.b64encode(self.subscription_of(member)).decode("ascii"),
        }
        if member.member_id is not None:
            body["member_id"] = member.member_id
        elif self.manners.repeats_joins:
            body["join_id"] = member.join_id
        if self.manners.held and self.manners.asks_for_grace:
            body["leave_on_disconnect"] = True
        return body

    async def _join(self, member: Member, calls: HttpConnection) -> None:
        member.joining = True
        try:
            body = self.join_body(member)
            answer = await self._ask(calls, "POST", f"{self.manners.path}/subscriptions", body, "join")
        finally:
            member.joining = False
            self._join_answered.set()
        document = answer.document()
        member.member_id = document["member_id"]
        member.awaited = document["generation_id"]
        self._witness.told("join", document["member_id"], member.awaited)
        self._some_member.set()

    def subscription_of(self, member: Member) -> bytes:
        """The bytes that it would join with now."""
        running = {f"0_{partition}": -2 for partition in member.active}
        endpoint = f"host-{self.number}.example:8080" if self.manners.endpoint else None
        owned = tuple(sorted(member.active))
        return subscription(self.process_id, running, owned, member.generation_id or None, endpoint)

    async def _fetch(self, member: Member, calls: HttpConnection, wait_ms: int) -> None:
        assert member.member_id is not None, "it has joined"
        answer_to = member.member_id
        answer = await self._ask(
            calls,
            "GET",
            f"{self._member_path(member)}/assignment?min_generation={member.awaited}&wait_ms={wait_ms}",
            None,
            "fetch",
            {"Accept": "application/octet-stream"},
            wait_ms,
        )
        if answer.status != 200:
            return
        active = frozenset(each.partition for each in decode_assignment(answer.body).partitions)
        gave_something_up = bool(member.active - active)
        member.generation_id = int(answer.header("assignor-generation-id") or 0)
        self._witness.told("fetch", answer_to, member.generation_id, active)
        self._witness.fetched(member.generation_id, len(answer.body))
        self._own(member, active, member.generation_id)
        if gave_something_up:
            member.rejoin = True

    async def _heartbeat_of_all(self, heart: HttpConnection) -> None:
        await self._some_member.wait()
        known: str | None = None
        pause_s = PAUSE_S
        before: set[str] = set()
        while True:
            await self._joins_on_their_way()
            named = {member.member_id: member for member in self.members if member.member_id and not member.lost}
            if named.keys() != before:
                known = None  # of a member that is new to it the last answer said nothing: this one comes at once
            before = set(named)
            body: dict[str, object] = {
                "members": {member_id: {"generation_id": member.generation_id} for member_id, member in named.items()}
            }
            if not named:
                self._some_member.clear()
                await self._some_member.wait()
                continue
            if known is not None:
                body["known"] = known
            wait_ms = self.manners.heartbeat_interval_ms if known is not None else 0
            sent_s = time.monotonic()
            try:
                answer = await self._ask(
                    heart, "POST", f"{self.manners.path}/heartbeat?wait_ms={wait_ms}", body, "heartbeat", None, wait_ms
                )
            except NoAnswer:
                known = None
                await asyncio.sleep(self._chance.uniform(0, pause_s))
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                continue
            pause_s = PAUSE_S
            self._witness.heartbeat(sent_s, held_s=wait_ms / 1_000)
            document = answer.document()
            self._witness.heard(document["generation_id"])
            known, self.state = document["news"], document["state"]
            self.beats += 1
            for member_id, member in named.items():
                if member.member_id != member_id:
                    continue
                told = document["members"][member_id]
                if told.get("code") == "UNKNOWN_MEMBER_ID":
                    self._evicted(member, "heartbeat")
                elif "code" in told:
                    raise AssertionError(f"heartbeat of {member_id}: {told}")
                else:
                    self._told(member, member_id, rejoin=told["rejoin"], offered=told["assignment_generation"])

    async def _joins_on_their_way(self) -> None:
        """Their answers, which come soon, change what a heartbeat has to say."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(JOINS_TOGETHER_S):
                while any(member.joining for member in self.members):
                    self._join_answered.clear()
                    await self._join_answered.wait()

    async def _heartbeat_of_one(self, member: Member, heart: HttpConnection) -> None:
        pause_s = self.manners.heartbeat_interval_ms / 1000
        began_s: float | None = None
        while True:
            await asyncio.sleep(pause_s)
            pause_s = self.manners.heartbeat_interval_ms / 1000
            if member.member_id is None or member.lost:
                began_s = None
                continue
            member_id = member.member_id
            body = {"generation_id": member.generation_id}
            began_s = time.monotonic() if began_s is None else began_s
            try:
                answer = await self._ask(heart, "POST", f"{self._member_path(member)}/heartbeat", body, "heartbeat")
            except NoAnswer:
                if self._route.has_others:
                    pause_s = self._chance.uniform(0, PAUSE_S)
                continue
            except Refused as refusal:
                if refusal.code == "UNKNOWN_MEMBER_ID":
                    self._evicted(member, "heartbeat")
                    continue
                began_s = None
                if refusal.code in ("ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS"):
                    continue
                raise
            told = answer.document()
            self._witness.heartbeat(began_s, every_s=self.manners.heartbeat_interval_ms / 1_000)
            self._witness.heard(told["generation_id"])
            began_s = None
            self.state = told["state"]
            self.beats += 1
            if member.member_id == member_id:
                self._told(member, member_id, rejoin=told["rejoin"], offered=told["generation_id"])

    def _told(self, member: Member, member_id: str, *, rejoin: bool, offered: int) -> None:
        if offered:  # none, while there is nothing to fetch
            self._witness.told("heartbeat", member_id, offered)
        member.offered = offered
        if rejoin:
            member.rejoin = True
        member.news.set()

    async def _ask(
        self,
        connection: HttpConnection,
        method: str,
        path: str,
        body: object,
        call: str,
        headers: dict[str, str] | None = None,
        wait_ms: int = 0,
    ) -> Answer:
        """Obeys 429 and 503; hangs up now and then. Raises NoAnswer, and Refused for every other refusal."""
        request = request_bytes(method, path, body, headers)
        sent_ms, starved_by_then_ms = now_ms(), self._witness.starvation.total_ms
        if self.manners.hang_up_chance and self._chance.random() < self.manners.hang_up_chance:
            await connection.send_and_hang_up(request)
            raise NoAnswer("hung up")
        try:
            answer = await connection.send(request, (self.manners.answer_timeout_ms + wait_ms) / 1000)
        except NoAnswer:
            self._witness.service.missed(min(now_ms(), sent_ms + wait_ms))
            raise
        self._witness.answered(call, answer.status, (now_ms() - sent_ms) / 1000)
        if answer.status in (307, 429, 503):
            self._witness.service.missed(now_ms())
            if answer.status == 429 or not self._route.has_others:
                await asyncio.sleep(answer.retry_after_s() * self._chance.uniform(0.5, 1.0))
            raise NoAnswer(f"{answer.status}")
        self._witness.service.answered(now_ms())
        if answer.status >= 400:
            refusal = Refused(answer)
            self._witness.refusals[refusal.code] += 1
            raise refusal
        if sent_ms > self._answered_ms:
            self._answered_ms, self._starved_by_then_ms = sent_ms, starved_by_then_ms
        return answer

    def _evicted(self, member: Member, call: str) -> None:
        assert member.member_id is not None, "it was a member"
        at_ms = now_ms()
        if not member.lost:
            self._witness.evicted(
                Eviction(
                    member.name,
                    member.member_id,
                    call,
                    at_ms,
                    silent_ms=at_ms - self._answered_ms,
                    starved_ms=self._witness.starvation.total_ms - self._starved_by_then_ms,
                    allowed_ms=self.manners.silence_allowed_ms,
                )
            )
        self._own(member, frozenset(), 0, at_ms)
        member.lost, member.generation_id, member.awaited, member.offered = True, 0, 0, 0
        member.news.set()

    def _own(self, member: Member, active: frozenset[int], generation_id: int, at_ms: float | None = None) -> None:
        member.active = active
        self._witness.owns(self.number, member.name, member.member_id, generation_id, active, at_ms)

    def _member_path(self, member: Member) -> str:
        return f"{self.manners.path}/members/{member.member_id}"
