"""One member of a group under load: does over HTTP what a stream thread's membership does in the runtime.

It sends its subscription (real ConsumerProtocol bytes), fetches its assignment, drops at once what is taken away and
rejoins when it dropped something. State stores, logs and records are left out: a task counts as running from the
moment that it is assigned. Source of the rules: `streams_runtime.membership`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass

from assignor.protocol.assignment_info import decode_assigned_tasks
from assignor.protocol.consumer_protocol import Subscription, decode_assignment, encode_subscription
from assignor.protocol.subscription_info import SubscriptionInfo, encode_subscription_info
from assignor.protocol.versions import LATEST_SUPPORTED_VERSION
from assignor.types import LATEST_OFFSET, ProcessId, TaskId, TopicPartition
from benchmarks.group_load.fleet_plan import FleetPlan
from benchmarks.group_load.fleet_record import UNKNOWN_MEMBER_ID, FleetRecord
from benchmarks.group_load.heartbeats import Heartbeats
from benchmarks.group_load.http_calls import Answer, Connections, request
from benchmarks.group_load.refusals import (
    ILLEGAL_GENERATION,
    REBALANCE_IN_PROGRESS,
    REJOIN_AFTER,
    TRY_AGAIN,
    Refused,
    error_code,
)

FETCH_WAIT_MS = 1_000
"""How long the coordinator may hold one request for an assignment. Source: the runtime's members."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 0.5
RAW = "application/octet-stream"
_AT_ONCE = bytes(8)  # the end of an AssignmentInfo: the time of the next rebalance


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """What all members of a process say of it."""

    number: int
    process_id: ProcessId
    endpoint: str

    @classmethod
    def of(cls, plan: FleetPlan, number: int) -> ProcessIdentity:
        chance = random.Random(f"{plan.seed} {plan.group} {number}")
        return cls(number, ProcessId.from_bytes(chance.randbytes(16)), f"host-{number}:9092")


class Member:
    """One stream thread's membership. `run` goes on until the task is cancelled."""

    def __init__(
        self, record: FleetRecord, process: ProcessIdentity, number: int, calls: Connections, heartbeats: Heartbeats
    ) -> None:
        plan = record.plan
        self._record = record
        self._process = process
        self._calls = calls
        self._heartbeats = heartbeats
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
            self._record.busy(self)
            try:
                await self._rebalance()
            except Refused as refused:
                if refused.code not in REJOIN_AFTER:
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
            self._record.at_rest(self)
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
        if code == ILLEGAL_GENERATION and self._awaited > self.generation_id:
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
        plan = self._record.plan
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
        self._record.joined(sent, time.monotonic())
        self.epoch += 1
        self.joining = False
        self._awaited = joined["generation_id"]
        if self.member_id is None:
            self.member_id = joined["member_id"]
            self._heartbeats.joined(self)
        self._heartbeats.join_answered()

    async def _fetch(self) -> Answer | None:
        """The assignment that was awaited, None when there is none.

        Also when the next rebalance has started meanwhile: until a member rejoins it can fetch what it waits for, and
        what it gives up now need not wait for yet another rebalance.
        """
        plan = self._record.plan
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
        record = self._record
        pause = FIRST_PAUSE_S
        while True:
            wait = None
            try:
                answer = await self._calls.call(call)
                if answer.status < 300:
                    return answer
                record.statuses[answer.status] += 1
                if answer.status not in TRY_AGAIN:
                    raise Refused(answer.status, error_code(answer))
                wait = answer.header("retry-after")
            except ConnectionError:
                record.failed_calls += 1
            await asyncio.sleep((float(wait) if wait else pause) * record.random.uniform(0.5, 1.5))
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def next_subscription(self) -> bytes:
        """ConsumerProtocolSubscription, as the runtime would send it now."""
        self._unique_field = (self._unique_field + 1 + 128) % 256 - 128
        sums = dict.fromkeys(self.active, LATEST_OFFSET) | dict.fromkeys(self.standby, self._record.standby_offset)
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
        self._record.holdings.take(self.name, active - self.active, now)
        self.active, self.standby = active, tasks.standby_tasks
        self.generation_id = int(fetched.header("assignor-generation-id") or 0)
        self._record.fetched(self.generation_id, len(fetched.body), now)
        return bool(dropped)

    def _drop(self, tasks: Iterable[TaskId]) -> None:
        self._record.holdings.drop(self.name, tasks, time.monotonic())

    def _heed_refusal(self) -> None:
        refused, self._refused = self._refused, None
        if refused is not None:
            self._obey(refused)

    def _obey(self, code: str) -> None:
        """What Kafka's members do about an error. The group may have given all tasks away, unless it waits for us."""
        self._record.refusals[code] += 1
        if code == REBALANCE_IN_PROGRESS:
            return
        self._drop(self.active)
        self.active, self.standby, self.generation_id = frozenset(), (), 0
        if code == UNKNOWN_MEMBER_ID:
            self._heartbeats.forgotten(self)
            self.member_id = None
            self._awaited, self._ready, self._rejoin_generation = 0, 0, -1

    async def _hear_news(self) -> None:
        self._news = asyncio.get_running_loop().create_future()
        await self._news

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
