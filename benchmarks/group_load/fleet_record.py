"""What the members of a fleet have seen and done, and what they all share: their plan, their service, their chance."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field

from benchmarks.group_load.fleet_plan import FleetPlan
from benchmarks.group_load.holdings import Holdings
from benchmarks.group_load.latencies import Latencies

UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID"


@dataclass(slots=True)
class RoundTimes:
    """Of one generation, in seconds of the monotonic clock. `bytes`: of the assignments that members fetched."""

    first_heard: float = 0.0
    first_fetched: float = 0.0
    last_fetched: float = 0.0
    fetched: int = 0
    bytes: int = 0


@dataclass(slots=True)
class FleetRecord:
    """Of one event loop.

    `evictions`: how often the group did not know a member that lived. `refusals`: by Kafka's name of the error;
    `statuses`: of answers that were no success. `failed_calls`: connections that broke under a call. `rounds`: by
    generation. `standby_offset`: how far every standby says it is. `not_at_rest`: members that are about to join, or
    wait for an assignment; `changed`: set when there is none left, or when `fault`, which ended a member, is there.
    """

    plan: FleetPlan
    url: str
    standby_offset: int = 1_000
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
    not_at_rest: set[object] = field(default_factory=set)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    fault: BaseException | None = None

    @property
    def evictions(self) -> int:
        return self.refusals[UNKNOWN_MEMBER_ID]

    def busy(self, member: object) -> None:
        self.not_at_rest.add(member)

    def at_rest(self, member: object) -> None:
        self.not_at_rest.discard(member)
        if not self.not_at_rest:
            self.changed.set()

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
        self.fault = self.fault or fault
        self.changed.set()

    def _round(self, generation_id: int) -> RoundTimes:
        found = self.rounds.get(generation_id)
        if found is None:
            found = self.rounds[generation_id] = RoundTimes()
        return found
