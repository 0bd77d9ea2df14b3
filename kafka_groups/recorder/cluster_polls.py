"""Looks at the cluster, taken continually, so that each rebalance finds one from just before it.

The recorder learns of a rebalance only after it. What the leader saw lies between the last look before all members had
joined and the first look after the record came. While the topology is unknown, a look lists only the topics. A look
that fails is skipped, so the last one before is older.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from assignor.snapshot import ClusterView, RebalanceSnapshot
from kafka_client.admin.cluster_admin import ClusterAdmin
from kafka_client.cluster_view import cluster_view
from kafka_client.errors import KafkaClientError

OFFSETS_TIMEOUT_S = 10.0
_KEPT = 64
_WHILE_JOINING_S = 0.05
_JOINING, _PLACING = "PreparingRebalance", "CompletingRebalance"
_QUICK_LOOKS_WHILE_PLACING = 10
_STATE_TIMEOUT_S = 1.0  # without a state there are just fewer looks


@dataclass(frozen=True, slots=True)
class _Look:
    """`at`: when it ended. `looked_for`: the internal topics it looked for, None for all topics.

    `internal`: those that existed. `view`: None when it listed only topic names.
    """

    at: float
    looked_for: frozenset[str] | None
    internal: frozenset[str]
    view: ClusterView | None


@dataclass(frozen=True, slots=True)
class TopicsLook:
    """A look at the names of all topics. `at`: when it ended."""

    at: float
    topics: frozenset[str]


class ClusterLooks:
    """`definition`: returns what to look at, None while that is unknown. All times are `time.monotonic`."""

    def __init__(
        self,
        admin: ClusterAdmin,
        group: str,
        definition: Callable[[], Awaitable[RebalanceSnapshot | None]],
        interval_s: float,
    ) -> None:
        self._admin = admin
        self._group = group
        self._definition = definition
        self._interval_s = interval_s
        self._looks: deque[_Look] = deque(maxlen=_KEPT)

    async def run(self) -> None:
        """Look until cancelled, more often while members join and when the leader begins."""
        quick_looks = 0
        while True:
            state = ""
            with contextlib.suppress(KafkaClientError, TimeoutError):  # the reader of the records reports it
                definition = await self._definition()
                if definition is None:
                    topics = frozenset(await self._admin.topics())
                    self.add(TopicsLook(time.monotonic(), topics))
                else:
                    await self.look(definition)
                async with asyncio.timeout(_STATE_TIMEOUT_S):
                    state = (await self._admin.describe_group(self._group)).state
            quick_looks = quick_looks + 1 if state == _PLACING else 0
            is_quick = state == _JOINING or 0 < quick_looks <= _QUICK_LOOKS_WHILE_PLACING
            await asyncio.sleep(min(_WHILE_JOINING_S, self._interval_s) if is_quick else self._interval_s)

    def add(self, look: TopicsLook) -> None:
        """Add a look that another object took."""
        self._looks.append(_Look(look.at, None, look.topics, None))

    async def look(self, definition: RebalanceSnapshot) -> ClusterView:
        """Look now. Raises KafkaUnavailable, KafkaRefused."""
        view = await cluster_view(self._admin, definition, offsets_timeout_s=OFFSETS_TIMEOUT_S)
        looked_for = frozenset(definition.topology.internal_topics)
        self._looks.append(_Look(time.monotonic(), looked_for, frozenset(view.existing_internal_topics), view))
        return view

    def before(self, at: float, definition: RebalanceSnapshot, after: ClusterView) -> ClusterView | None:
        """The last look that ended before `at`, None when there is none."""
        earlier = [look for look in self._usable(definition) if look.at <= at]
        if not earlier:
            return None
        look = earlier[-1]
        if look.view is not None:
            return look.view
        existing = {name: topic for name, topic in after.existing_internal_topics.items() if name in look.internal}
        return ClusterView(after.cluster, existing)

    def since(self, at: float, definition: RebalanceSnapshot) -> tuple[ClusterView, ...]:
        """The later looks, in order."""
        return tuple(look.view for look in self._usable(definition) if look.at > at and look.view is not None)

    def _usable(self, definition: RebalanceSnapshot) -> list[_Look]:
        needed = definition.topology.internal_topics
        return [look for look in self._looks if look.looked_for is None or needed <= look.looked_for]
