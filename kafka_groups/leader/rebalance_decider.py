"""The work of one rebalance: look at the cluster, decide, create topics; again and again while it fails and time is
left.

What fails is told and tried again with growing pauses, and nothing is sent meanwhile. What Kafka's leader would have
thrown fails the rebalance, too; an error assignment is a result like any other. The time runs on over generations: JVM
members that wait for their assignment longer than their session begin a new one each time. Nothing is sent either that
the brokers could not keep: who leads a group whose record is too large gets an unknown error, and so does every member,
which kills JVM members.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from assignor.errors import AssignorFault
from assignor.snapshot import RebalanceSnapshot
from assignor.task_assignors.base import TaskAssignor
from kafka_client.cluster_admin import ClusterAdmin
from kafka_client.cluster_view import cluster_view
from kafka_groups.leader.led_rebalance import GroupMembers, LedRebalance, all_assignments, lead_rebalance
from kafka_groups.leader.own_member import source_topics
from kafka_groups.leader.record_size import check_record_size

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 10.0
_OFFSETS_TIMEOUT_S = 30.0
_LEAST_TRY_S = 10.0


class LedRebalanceFailed(AssignorFault):
    """A rebalance failed until its time was over. `led`: of the last try, None when it did not come to a decision."""

    def __init__(self, words: str, led: DecidedRebalance | None) -> None:
        super().__init__(words)
        self.led = led


@dataclass(frozen=True, slots=True)
class DecidedRebalance:
    """`led`: None when no member of the application is in the group. `assignments`: for every member id."""

    now_ms: int
    led: LedRebalance | None
    assignments: dict[str, bytes]


class _NotDecided(Exception):
    """What Kafka's leader would have thrown."""

    def __init__(self, rebalance: DecidedRebalance, words: str) -> None:
        super().__init__(words)
        self.rebalance = rebalance


class RebalanceDecider:
    """`definition`: the group without members and cluster. `redefine`: makes it anew from the topics of the cluster,
    for sources by pattern; None when nothing of it depends on them.
    """

    def __init__(
        self,
        admin: ClusterAdmin,
        definition: RebalanceSnapshot,
        task_assignor: TaskAssignor | None,
        timeout_s: float,
        say: Callable[[str], None],
        redefine: Callable[[], Awaitable[RebalanceSnapshot]] | None = None,
    ) -> None:
        self._admin = admin
        self._definition = definition
        self._redefine = redefine
        self._task_assignor = task_assignor
        self._timeout_s = timeout_s
        self._say = say
        self._undecided_since: float | None = None

    @property
    def topics(self) -> tuple[str, ...]:
        """That the topology reads."""
        return source_topics(self._definition.topology)

    @property
    def changelogs(self) -> tuple[str, ...]:
        stores = (store for each in self._definition.topology.subtopologies for store in each.stores)
        return tuple(store.changelog_topic for store in stores if store.changelog_topic is not None)

    async def decide(self, generation_id: int, members: GroupMembers) -> DecidedRebalance:
        """Raises LedRebalanceFailed when time is over since the first rebalance of those that failed."""
        clock = asyncio.get_running_loop().time
        if self._undecided_since is None:
            self._undecided_since = clock()
        give_up_at = self._undecided_since + self._timeout_s
        pause_s = _FIRST_PAUSE_S
        while True:
            failed: DecidedRebalance | None = None
            try:
                async with asyncio.timeout_at(max(give_up_at, clock() + min(_LEAST_TRY_S, self._timeout_s))):
                    decided = await self._once(members)
                self._undecided_since = None
                return decided
            except TimeoutError:
                words = f"no result within {self._timeout_s:g} s"
            except _NotDecided as error:
                failed, words = error.rebalance, str(error)
            except AssignorFault as error:
                words = str(error)
            except Exception as error:  # a user's own assignor may raise anything
                words = f"{type(error).__name__}: {error}"
            if clock() + pause_s >= give_up_at:
                raise LedRebalanceFailed(f"generation {generation_id}: the rebalance failed: {words}", failed)
            self._say(f"generation {generation_id}: the rebalance failed, and is tried again in {pause_s:g} s: {words}")
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _once(self, members: GroupMembers) -> DecidedRebalance:
        now_ms = time.time_ns() // 1_000_000
        if not members.streams:
            assignments = all_assignments(members, None)
            await check_record_size(self._admin, members.sizes, assignments)
            return DecidedRebalance(now_ms, None, assignments)
        await self._follow_patterns(members)
        view = await cluster_view(self._admin, self._definition, offsets_timeout_s=_OFFSETS_TIMEOUT_S)
        snapshot = replace(self._definition.seen(view), members=members.streams)
        led = await asyncio.to_thread(lead_rebalance, snapshot, now_ms, self._task_assignor)
        if led.result.created_topics:
            await self._admin.create_topics(led.result.created_topics)
        if led.result.error is not None:
            raise _NotDecided(DecidedRebalance(now_ms, led, {}), led.result.error.as_recorded())
        assignments = all_assignments(members, led.result)
        await check_record_size(self._admin, members.sizes, assignments)
        return DecidedRebalance(now_ms, led, assignments)

    async def _follow_patterns(self, members: GroupMembers) -> None:
        """A source by pattern reads what the cluster has now. Another version of the application changes nothing."""
        before = set(self.topics)
        if self._redefine is None or set().union(*members.topics.values()) == before:
            return
        definition = await self._redefine()
        now = set(source_topics(definition.topology))
        if now != before:
            self._definition = definition
            changed = [f"{topic} is read, too" for topic in sorted(now - before)]
            changed += [f"{topic} is not read any more" for topic in sorted(before - now)]
            self._say(f"topology: by pattern, {', '.join(changed)}")
