"""The heartbeats of a process under load: one for all of its members, held until there is news, or one for each member.

A heartbeat carries the standing in which it was sent: a refusal of an older one is void. Source of the rules:
`streams_runtime.membership`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from benchmarks.group_load.fleet_record import FleetRecord
from benchmarks.group_load.http_calls import Answer, Connections, request
from benchmarks.group_load.refusals import TRY_AGAIN, error_code

FIRST_PAUSE_S = 0.05
JOINS_TOGETHER_S = 0.1
"""A process's heartbeat waits so long for joins of its members to be answered. Source: the runtime's members."""


class BeatingMember(Protocol):
    """What a heartbeat says of a member, and tells it. `epoch`: of its standing. `joining`: a join is on its way."""

    member_id: str | None
    generation_id: int
    epoch: int
    joining: bool

    def hear(self, generation_id: int, *, rejoin: bool, assignment_generation: int) -> None: ...

    def hear_refusal(self, code: str) -> None: ...


class Heartbeats:
    """Of the members of one process. `start`: runs work until the process ends."""

    def __init__(self, record: FleetRecord, start: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        plan = record.plan
        self._record = record
        self._start = start
        self._all: Sequence[BeatingMember] = ()
        self._connections = Connections(record.url, 1 if plan.held else plan.threads)
        self._known: dict[str, BeatingMember] = {}
        self._somebody = asyncio.Event()
        self._join_answered = asyncio.Event()

    def begin(self, members: Sequence[BeatingMember]) -> None:
        """`members`: all that the process will ever have."""
        self._all = members
        if self._record.plan.held:
            self._start(self._beat_for_all())

    def close(self) -> None:
        self._connections.close()

    # --- what the members say

    def joined(self, member: BeatingMember) -> None:
        assert member.member_id is not None
        self._known[member.member_id] = member
        self._somebody.set()
        if not self._record.plan.held:
            self._start(self._beat_for_one(member, member.member_id))

    def join_answered(self) -> None:
        self._join_answered.set()

    def forgotten(self, member: BeatingMember) -> None:
        if member.member_id is not None:
            self._known.pop(member.member_id, None)
        if not self._known:
            self._somebody.clear()

    async def _beat_for_all(self) -> None:
        """One heartbeat after the other for all members; the coordinator holds each until there is news."""
        plan, latencies = self._record.plan, self._record.heartbeats
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
                answer = await self._connections.call(request("POST", path, json.dumps(body).encode()))
            except ConnectionError:
                known = None
                self._record.failed_calls += 1
                await asyncio.sleep(FIRST_PAUSE_S * self._record.random.uniform(0.5, 1.5))
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
            self._record.heard(told["generation_id"], ended)
            all_counted = self._tell(members, epochs, told["generation_id"], told["members"])
            # who has joined meanwhile is not spoken of in this answer: the next one comes at once
            known = told["news"] if all_counted and self._known.keys() == members.keys() else None

    async def _joins_that_are_on_their_way(self) -> None:
        """Their answers, which come soon, change what a heartbeat has to say."""
        until = time.monotonic() + min(JOINS_TOGETHER_S, self._record.plan.heartbeat_s)
        while any(member.joining for member in self._all):
            self._join_answered.clear()
            late = asyncio.get_running_loop().call_at(
                asyncio.get_running_loop().time() + until - time.monotonic(), self._join_answered.set
            )
            await self._join_answered.wait()
            late.cancel()
            if time.monotonic() >= until:
                return

    def _tell(
        self,
        members: dict[str, BeatingMember],
        epochs: dict[str, int],
        generation_id: int,
        news: dict[str, dict[str, Any]],
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
        self._record.statuses[answer.status] += 1
        wait = float(answer.header("retry-after") or FIRST_PAUSE_S)
        await asyncio.sleep(wait * self._record.random.uniform(0.5, 1.5))

    async def _beat_for_one(self, member: BeatingMember, member_id: str) -> None:
        """One heartbeat at each interval, for as long as the member has this id."""
        plan = self._record.plan
        path = f"{plan.path}/members/{member_id}/heartbeat"
        while member.member_id == member_id:
            await asyncio.sleep(plan.heartbeat_s)
            epoch = member.epoch
            body = b'{"generation_id":%d}' % member.generation_id
            sent = time.monotonic()
            try:
                answer = await self._connections.call(request("POST", path, body))
            except ConnectionError:
                self._record.failed_calls += 1
                continue
            ended = time.monotonic()
            self._record.heartbeats.add(sent, ended, plan.heartbeat_s)
            if member.member_id != member_id:
                return
            if answer.status == 200:
                told = json.loads(answer.body)
                self._record.heard(told["generation_id"], ended)
                member.hear(told["generation_id"], rejoin=told["rejoin"], assignment_generation=0)
            elif answer.status in TRY_AGAIN:
                self._record.statuses[answer.status] += 1
            elif member.epoch == epoch:
                code = error_code(answer)
                member.hear_refusal(code)
