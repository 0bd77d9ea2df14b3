"""Members of a group that do over HTTP what the runtime does, thousands of them in one event loop.

A process of N threads is N members, as with the runtime: each sends its subscription (real ConsumerProtocol bytes),
fetches its assignment, drops at once what is taken away and rejoins when it dropped something. There are two kinds.
`held`: a process has one heartbeat for all of its members, which the coordinator holds until there is news. Not `held`:
each member's heartbeat is a call of its own, and it waits for its assignment in a GET that is held. State stores, logs
and records are left out: a task counts as running from the moment that it is assigned.

The members check what they get: `Fleet.holdings` says whether a task ever had two holders, `Fleet.evictions` how often
the group did not know a member that lived. Source of the rules: `streams_runtime.membership`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import time
from collections import Counter
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from assignor.protocol.assignment_info import decode_assigned_tasks
from assignor.protocol.consumer_protocol import Subscription, decode_assignment, encode_subscription
from assignor.protocol.subscription_info import SubscriptionInfo, encode_subscription_info
from assignor.protocol.versions import LATEST_SUPPORTED_VERSION
from assignor.types import LATEST_OFFSET, ProcessId, TaskId, TopicPartition
from benchmarks.group_load.holdings import Holdings
from benchmarks.group_load.http_calls import Answer, Connections, request
from benchmarks.group_load.latencies import Latencies

LONGEST_HEARTBEAT_INTERVAL_MS = 3_000
FETCH_WAIT_MS = 1_000
"""How long the coordinator may hold one request for an assignment. Source: the runtime's members."""

JOINS_TOGETHER_S = 0.1
"""A process's heartbeat waits so long for joins of its members to be answered. Source: as above."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 0.5
RAW = "application/octet-stream"
_AT_ONCE = bytes(8)  # the end of an AssignmentInfo: the time of the next rebalance
_TRY_AGAIN = frozenset({408, 425, 429, 502, 503, 504})
_UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID"
_ILLEGAL_GENERATION = "ILLEGAL_GENERATION"
_REBALANCE_IN_PROGRESS = "REBALANCE_IN_PROGRESS"
_REJOIN_AFTER = frozenset({_UNKNOWN_MEMBER_ID, _ILLEGAL_GENERATION, _REBALANCE_IN_PROGRESS})


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """Processes that join one group. Times in milliseconds.

    `heartbeat_interval_ms`: None for the lower of 3,000 and a third of the session. `leave_on_disconnect`: what the
    joins ask for. `repeatable`: the first joins carry a `join_id`. `calls_at_once`: connections that a process has
    besides that of its heartbeat. `first`: the number of the first process; two fleets of one group need different
    ones. `seed`: of pauses and process ids.
    """

    group: str
    processes: int
    threads: int
    topic: str
    held: bool = True
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    heartbeat_interval_ms: int | None = None
    leave_on_disconnect: bool = True
    repeatable: bool = True
    calls_at_once: int = 4
    first: int = 0
    seed: int = 1

    @property
    def heartbeat_s(self) -> float:
        default_ms = min(LONGEST_HEARTBEAT_INTERVAL_MS, self.session_timeout_ms // 3)
        return (self.heartbeat_interval_ms or default_ms) / 1_000

    @property
    def path(self) -> str:
        return f"/v1/groups/{quote(self.group, safe='')}"


@dataclass(slots=True)
class RoundTimes:
    """Of one generation, in seconds of the monotonic clock. `bytes`: of the assignments that members fetched."""

    first_heard: float = 0.0
    first_fetched: float = 0.0
    last_fetched: float = 0.0
    fetched: int = 0
    bytes: int = 0


class Refused(Exception):
    """An answer that is no success. `code`: Kafka's name of the error."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(status, code)
        self.code = code


class Member:
    """One stream thread's membership. `run` goes on until the task is cancelled."""

    def __init__(self, fleet: Fleet, process: MemberProcess, number: int) -> None:
        plan = fleet.plan
        self._fleet = fleet
        self._process = process
        self.name = f"p{process.number}-t{number}"
        self.member_id: str | None = None
        self.generation_id = 0
        self.epoch = 0
        """Rises with every join, when it is sent and when it is answered: a refusal of an older heartbeat is void."""
        self.active: frozenset[TaskId] = frozenset()
        self.standby: tuple[TaskId, ...] = ()
        self._awaited = 0
        self._ready = 0
        self._rejoin_generation = -1
        self.joining = False
        self._refused: str | None = None
        self._news: asyncio.Future[None] | None = None
        self._unique_field = 0
        self._joins = 0
        self._tags = {"zone": f"zone-{process.number % 3}"}
        self._topics = (plan.topic,)

    async def run(self) -> None:
        while True:
            self._fleet.busy(self)
            try:
                await self._rebalance()
            except Refused as refused:
                if refused.code not in _REJOIN_AFTER:
                    raise
                self._obey(refused.code)

    async def _rebalance(self) -> None:
        """Join, take the assignment, hold it until there is news."""
        await self._join()
        fetched = await self._fetch()
        if fetched is None:
            self._heed_refusal()
            return
        dropped = self._take(fetched)
        followup = fetched.header("assignor-followup") == "true"
        if dropped or (followup and fetched.body.endswith(_AT_ONCE)):
            return
        if not followup:
            self._fleet.at_rest(self)
        while not self._has_news:
            await self._hear_news()
        self._heed_refusal()

    @property
    def process_id(self) -> ProcessId:
        return self._process.process_id

    @property
    def _has_news(self) -> bool:
        """A join answers every "rejoin" of an earlier generation than the one that it waits for."""
        return self._refused is not None or self._rejoin_generation >= self._awaited

    def hear(self, generation_id: int, *, rejoin: bool, assignment_generation: int) -> None:
        """`generation_id`: the group's, when it said so."""
        if rejoin:
            self._rejoin_generation = max(self._rejoin_generation, generation_id)
        self._ready = max(self._ready, assignment_generation)
        if self._has_news or self._ready >= self._awaited:
            self._wake()

    def hear_refusal(self, code: str) -> None:
        """A group that has gone on while this member waits for its assignment refuses the generation before it."""
        if code == _ILLEGAL_GENERATION and self._awaited > self.generation_id:
            return
        self._refused = code
        self._wake()

    def end(self) -> None:
        """Its process has ended: nothing runs there any more."""
        self._drop(self.active)

    # --- calls

    async def _join(self) -> None:
        self.epoch += 1
        self.joining = True
        self._joins += 1
        plan = self._fleet.plan
        body: dict[str, object] = {
            "session_timeout_ms": plan.session_timeout_ms,
            "rebalance_timeout_ms": plan.rebalance_timeout_ms,
            "client_id": self.name,
            "subscription": base64.b64encode(self.next_subscription()).decode(),
        }
        if plan.leave_on_disconnect:
            body["leave_on_disconnect"] = True
        if self.member_id is not None:
            body["member_id"] = self.member_id
        elif plan.repeatable:
            body["join_id"] = f"{self.name}-{self._joins}-{plan.seed}"
        call = request("POST", f"{plan.path}/subscriptions", json.dumps(body).encode())
        sent = time.monotonic()
        answer = await self._patiently(call)
        joined = json.loads(answer.body)
        self._fleet.joined(sent, time.monotonic())
        self.epoch += 1
        self.joining = False
        self._awaited = joined["generation_id"]
        if self.member_id is None:
            self.member_id = joined["member_id"]
            self._process.joined(self)
        self._process.join_answered()

    async def _fetch(self) -> Answer | None:
        """The assignment that was awaited, None when there is none.

        Also when the next rebalance has started meanwhile: until a member rejoins it can fetch what it waits for, and
        what it gives up now need not wait for yet another rebalance.
        """
        plan = self._fleet.plan
        while self._refused is None:
            if plan.held and self._ready < self._awaited and not self._has_news:
                await self._hear_news()
                continue
            last = self._has_news
            if plan.held and self._ready < self._awaited:
                return None
            wait_ms = 0 if plan.held or last else FETCH_WAIT_MS
            path = f"{plan.path}/members/{self.member_id}/assignment"
            call = request("GET", f"{path}?min_generation={self._awaited}&wait_ms={wait_ms}", accept=RAW)
            answer = await self._patiently(call)
            if answer.status == 200:
                return answer
            if last:
                return None
            self._ready = 0  # it was there a moment ago, and is heard of again when it is there
        return None

    async def _patiently(self, call: bytes) -> Answer:
        """Repeated while there is no usable answer: every call may be. Raises Refused."""
        fleet = self._fleet
        pause = FIRST_PAUSE_S
        while True:
            wait = None
            try:
                answer = await self._process.calls.call(call)
                if answer.status < 300:
                    return answer
                fleet.statuses[answer.status] += 1
                if answer.status not in _TRY_AGAIN:
                    raise Refused(answer.status, _code(answer))
                wait = answer.header("retry-after")
            except ConnectionError:
                fleet.failed_calls += 1
            await asyncio.sleep((float(wait) if wait else pause) * fleet.random.uniform(0.5, 1.5))
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def next_subscription(self) -> bytes:
        """ConsumerProtocolSubscription, as the runtime would send it now."""
        self._unique_field = (self._unique_field + 1 + 128) % 256 - 128
        sums = dict.fromkeys(self.active, LATEST_OFFSET) | dict.fromkeys(self.standby, self._fleet.standby_offset)
        info = SubscriptionInfo(
            version=LATEST_SUPPORTED_VERSION,
            process_id=self._process.process_id,
            user_end_point=self._process.endpoint,
            task_offset_sums=sums,
            unique_field=self._unique_field,
            client_tags=self._tags,
        )
        (topic,) = self._topics
        return encode_subscription(
            Subscription(
                topics=self._topics,
                user_data=encode_subscription_info(info),
                owned_partitions=tuple(TopicPartition(topic, task.partition) for task in self.active),
                generation_id=self.generation_id or None,
            )
        )

    # --- tasks

    def _take(self, fetched: Answer) -> bool:
        """Drop what is no longer assigned, then hold the rest. True when something was dropped."""
        user_data = decode_assignment(fetched.body).user_data
        assert user_data is not None, "the coordinator's assignments have an AssignmentInfo"
        tasks = decode_assigned_tasks(user_data)
        active = frozenset(tasks.active_tasks)
        now = time.monotonic()
        dropped = self.active - active
        self._drop(dropped)
        self._fleet.holdings.take(self.name, active - self.active, now)
        self.active, self.standby = active, tasks.standby_tasks
        self.generation_id = int(fetched.header("assignor-generation-id") or 0)
        self._fleet.fetched(self.generation_id, len(fetched.body), now)
        return bool(dropped)

    def _drop(self, tasks: Iterable[TaskId]) -> None:
        self._fleet.holdings.drop(self.name, tasks, time.monotonic())

    def _heed_refusal(self) -> None:
        refused, self._refused = self._refused, None
        if refused is not None:
            self._obey(refused)

    def _obey(self, code: str) -> None:
        """What Kafka's members do about an error. The group may have given all tasks away, unless it waits for us."""
        self._fleet.refusals[code] += 1
        if code == _REBALANCE_IN_PROGRESS:
            return
        self._drop(self.active)
        self.active, self.standby, self.generation_id = frozenset(), (), 0
        if code == _UNKNOWN_MEMBER_ID:
            self._process.forgotten(self)
            self.member_id = None
            self._awaited, self._ready, self._rejoin_generation = 0, 0, -1

    async def _hear_news(self) -> None:
        self._news = asyncio.get_running_loop().create_future()
        await self._news

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


class MemberProcess:
    """One process of the application. `start` it; `kill` breaks its connections, as a SIGKILL does."""

    def __init__(self, fleet: Fleet, number: int) -> None:
        self._fleet = fleet
        self.number = number
        identity = random.Random(f"{fleet.plan.seed} {fleet.plan.group} {number}")
        self.process_id = ProcessId.from_bytes(identity.randbytes(16))
        self.endpoint = f"host-{number}:9092"
        self.members = [Member(fleet, self, thread) for thread in range(fleet.plan.threads)]
        threads = fleet.plan.threads
        # a member whose GET is held keeps its connection, so each needs one of its own
        self.calls = Connections(fleet.url, fleet.plan.calls_at_once if fleet.plan.held else threads)
        self._heartbeats = Connections(fleet.url, 1 if fleet.plan.held else threads)
        self._known: dict[str, Member] = {}
        self._somebody = asyncio.Event()
        self._join_answered = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        for member in self.members:
            self._run(member.run())
        if self._fleet.plan.held:
            self._run(self._beat_for_all())

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

    def joined(self, member: Member) -> None:
        assert member.member_id is not None
        self._known[member.member_id] = member
        self._somebody.set()
        if not self._fleet.plan.held:
            self._run(self._beat_for_one(member, member.member_id))

    def join_answered(self) -> None:
        self._join_answered.set()

    def forgotten(self, member: Member) -> None:
        if member.member_id is not None:
            self._known.pop(member.member_id, None)
        if not self._known:
            self._somebody.clear()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fleet.fail(task.exception())

    async def _beat_for_all(self) -> None:
        """One heartbeat after the other for all members; the coordinator holds each until there is news."""
        plan, latencies = self._fleet.plan, self._fleet.heartbeats
        interval_ms = round(plan.heartbeat_s * 1_000)
        path = f"{plan.path}/heartbeat?wait_ms={interval_ms}"
        known: str | None = None
        while True:
            await self._somebody.wait()
            await self._joins_that_are_on_their_way()
            members = dict(self._known)
            epochs = {key: member.epoch for key, member in members.items()}
            body: dict[str, object] = {
                "members": {key: {"generation_id": member.generation_id} for key, member in members.items()}
            }
            if known is not None:
                body["known"] = known
            sent = time.monotonic()
            try:
                answer = await self._heartbeats.call(request("POST", path, json.dumps(body).encode()))
            except ConnectionError:
                known = None
                self._fleet.failed_calls += 1
                await asyncio.sleep(FIRST_PAUSE_S * self._fleet.random.uniform(0.5, 1.5))
                continue
            ended = time.monotonic()
            if answer.status != 200:
                known = None
                await self._refused(answer)
                continue
            if known is None:
                latencies.add(sent, ended)
            elif ended - sent >= plan.heartbeat_s:  # held to its end: what it took beyond that
                latencies.add(sent + plan.heartbeat_s, ended)
            told = json.loads(answer.body)
            self._fleet.heard(told["generation_id"], ended)
            all_counted = self._tell(members, epochs, told["generation_id"], told["members"])
            # who has joined meanwhile is not spoken of in this answer: the next one comes at once
            known = told["news"] if all_counted and self._known.keys() == members.keys() else None

    async def _joins_that_are_on_their_way(self) -> None:
        """Their answers, which come soon, change what a heartbeat has to say."""
        until = time.monotonic() + min(JOINS_TOGETHER_S, self._fleet.plan.heartbeat_s)
        while any(member.joining for member in self.members):
            self._join_answered.clear()
            late = asyncio.get_running_loop().call_at(
                asyncio.get_running_loop().time() + until - time.monotonic(), self._join_answered.set
            )
            await self._join_answered.wait()
            late.cancel()
            if time.monotonic() >= until:
                return

    def _tell(
        self, members: dict[str, Member], epochs: dict[str, int], generation_id: int, news: dict[str, dict[str, Any]]
    ) -> bool:
        """False when a refusal was one of an older standing: the member has to be told again."""
        all_counted = True
        for key, told in news.items():
            member = members[key]
            if "code" not in told:
                member.hear(generation_id, rejoin=told["rejoin"], assignment_generation=told["assignment_generation"])
            elif self._known.get(key) is not member:
                continue  # it has heard that elsewhere
            elif member.epoch == epochs[key]:
                member.hear_refusal(told["code"])
            else:
                all_counted = False
        return all_counted

    async def _refused(self, answer: Answer) -> None:
        self._fleet.statuses[answer.status] += 1
        wait = float(answer.header("retry-after") or FIRST_PAUSE_S)
        await asyncio.sleep(wait * self._fleet.random.uniform(0.5, 1.5))

    async def _beat_for_one(self, member: Member, member_id: str) -> None:
        """One heartbeat at each interval, for as long as the member has this id."""
        plan = self._fleet.plan
        path = f"{plan.path}/members/{member_id}/heartbeat"
        while member.member_id == member_id:
            await asyncio.sleep(plan.heartbeat_s)
            epoch = member.epoch
            body = b'{"generation_id":%d}' % member.generation_id
            sent = time.monotonic()
            try:
                answer = await self._heartbeats.call(request("POST", path, body))
            except ConnectionError:
                self._fleet.failed_calls += 1
                continue
            ended = time.monotonic()
            self._fleet.heartbeats.add(sent, ended, plan.heartbeat_s)
            if member.member_id != member_id:
                return
            if answer.status == 200:
                told = json.loads(answer.body)
                self._fleet.heard(told["generation_id"], ended)
                member.hear(told["generation_id"], rejoin=told["rejoin"], assignment_generation=0)
            elif answer.status in _TRY_AGAIN:
                self._fleet.statuses[answer.status] += 1
            elif member.epoch == epoch:
                code = _code(answer)
                member.hear_refusal(code)


@dataclass(slots=True)
class Fleet:
    """All processes that one driver runs for one group; of one event loop.

    `evictions`: how often the group did not know a member that lived. `refusals`: by Kafka's name of the error;
    `statuses`: of answers that were no success. `failed_calls`: connections that broke under a call. `rounds`: by
    generation. `standby_offset`: how far every standby says it is.
    """

    plan: FleetPlan
    url: str
    standby_offset: int = 1_000
    processes: list[MemberProcess] = field(default_factory=list)
    holdings: Holdings = field(default_factory=Holdings)
    heartbeats: Latencies = field(default_factory=Latencies)
    joins: Latencies = field(default_factory=Latencies)
    rounds: dict[int, RoundTimes] = field(default_factory=dict)
    refusals: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    failed_calls: int = 0
    first_join: float = 0.0
    last_join: float = 0.0
    random: random.Random = field(default_factory=lambda: random.Random(1))
    _busy: set[Member] = field(default_factory=set)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _fault: BaseException | None = None

    @property
    def evictions(self) -> int:
        return self.refusals[_UNKNOWN_MEMBER_ID]

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
            self._busy.update(process.members)
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
                if self._fault is not None:
                    raise self._fault
                reached = {member.generation_id for member in self.members} if not self._busy else set()
                if len(reached) == 1 and min(reached) >= generation_id:
                    return min(reached)
                self._changed.clear()
                await self._changed.wait()

    # --- what the members tell

    def busy(self, member: Member) -> None:
        self._busy.add(member)

    def at_rest(self, member: Member) -> None:
        self._busy.discard(member)
        if not self._busy:
            self._changed.set()

    def joined(self, sent: float, answered: float) -> None:
        self.first_join = min(self.first_join or sent, sent)
        self.last_join = answered
        self.joins.add(sent, answered)

    def heard(self, generation_id: int, at: float) -> None:
        self._round(generation_id).first_heard = self._round(generation_id).first_heard or at

    def fetched(self, generation_id: int, size: int, at: float) -> None:
        times = self._round(generation_id)
        times.first_fetched = times.first_fetched or at
        times.last_fetched = at
        times.fetched += 1
        times.bytes += size

    def fail(self, fault: BaseException | None) -> None:
        self._fault = self._fault or fault
        self._changed.set()

    def _round(self, generation_id: int) -> RoundTimes:
        found = self.rounds.get(generation_id)
        if found is None:
            found = self.rounds[generation_id] = RoundTimes()
        return found

    def _gone(self, process: MemberProcess) -> None:
        self.processes.remove(process)
        self._busy.difference_update(process.members)
        self._changed.set()


def _code(answer: Answer) -> str:
    try:
        return str(json.loads(answer.body)["code"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP_{answer.status}"
