"""Polls the cluster continually, so that there is a view from just before each rebalance.

The recorder learns of a rebalance only after it. The leader's view lies between the last poll before all members had
joined and the first poll after the record came. While the topology is unknown, a poll lists only the topics. A poll
that fails is skipped; the last view before the rebalance is then older.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from assignor.snapshot import ClusterView, RebalanceSnapshot
from kafka_client.admin.cluster_admin import ClusterAdmin
from kafka_client.cluster_provider import cluster_view
from kafka_client.errors import KafkaClientError

OFFSETS_TIMEOUT_S = 10.0
_KEPT = 64
_WHILE_JOINING_S = 0.05
_JOINING, _PLACING = "PreparingRebalance", "CompletingRebalance"
_QUICK_POLLS_WHILE_PLACING = 10
_STATE_TIMEOUT_S = 1.0  # without the group's state, polls are only less frequent


@dataclass(frozen=True, slots=True)
class _Poll:
    """`at`: when it ended. `topics_asked`: the internal topics it asked for, None for all topics.

    `internal`: those that existed. `view`: None when it listed only topic names.
    """

    at: float
    topics_asked: frozenset[str] | None
    internal: frozenset[str]
    view: ClusterView | None


@dataclass(slots=True)
class ClusterPolls:
    """`definition`: returns the group to poll for, None while it is unknown. All times are `time.monotonic`."""

    admin: ClusterAdmin
    group: str
    definition: Callable[[], Awaitable[RebalanceSnapshot | None]]
    interval_s: float
    _polls: deque[_Poll] = field(default_factory=lambda: deque(maxlen=_KEPT))

    async def run(self) -> None:
        """Poll until cancelled, more often while members join and when the leader begins."""
        quick_polls = 0
        while True:
            state = ""
            with contextlib.suppress(KafkaClientError, TimeoutError):  # the reader of the records reports it
                definition = await self.definition()
                if definition is None:
                    topics = frozenset(await self.admin.topics())
                    self.add(time.monotonic(), topics)
                else:
                    await self.poll(definition)
                async with asyncio.timeout(_STATE_TIMEOUT_S):
                    state = (await self.admin.describe_group(self.group)).state
            quick_polls = quick_polls + 1 if state == _PLACING else 0
            is_quick = state == _JOINING or 0 < quick_polls <= _QUICK_POLLS_WHILE_PLACING
            await asyncio.sleep(min(_WHILE_JOINING_S, self.interval_s) if is_quick else self.interval_s)

    def add(self, at: float, topics: frozenset[str]) -> None:
        """Add a poll that only listed all topics. `at`: when it ended."""
        self._polls.append(_Poll(at, None, topics, None))

    async def poll(self, definition: RebalanceSnapshot) -> ClusterView:
        """Poll now. Raises KafkaUnavailable, KafkaRefused."""
        view = await cluster_view(self.admin, definition, offsets_timeout_s=OFFSETS_TIMEOUT_S)
        topics_asked = frozenset(definition.topology.internal_topics)
        self._polls.append(_Poll(time.monotonic(), topics_asked, frozenset(view.existing_internal_topics), view))
        return view

    def before(self, at: float, definition: RebalanceSnapshot, after: ClusterView) -> ClusterView | None:
        """The view of the last poll that ended before `at`, None when there is none."""
        earlier = [poll for poll in self._usable(definition) if poll.at <= at]
        if not earlier:
            return None
        poll = earlier[-1]
        if poll.view is not None:
            return poll.view
        existing = {name: topic for name, topic in after.existing_internal_topics.items() if name in poll.internal}
        return ClusterView(after.cluster, existing)

    def since(self, at: float, definition: RebalanceSnapshot) -> tuple[ClusterView, ...]:
        """The views of later polls, in order."""
        return tuple(poll.view for poll in self._usable(definition) if poll.at > at and poll.view is not None)

    def _usable(self, definition: RebalanceSnapshot) -> list[_Poll]:
        needed = definition.topology.internal_topics
        return [poll for poll in self._polls if poll.topics_asked is None or needed <= poll.topics_asked]
