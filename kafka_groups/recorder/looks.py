"""Looks at the cluster, one after the other, so that a rebalance finds one from just before it.

A rebalance is known only when it is over; what the leader saw lies between the last look before all members had joined
and the one after its record came. While the topology is not known, a look tells only which topics there are. Looks that
fail are passed over: then the last one before is older.
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
from kafka_client.cluster_view import cluster_view, internal_topics
from kafka_client.errors import KafkaClientError

OFFSETS_TIMEOUT_S = 10.0
_KEPT = 64
_WHILE_JOINING_S = 0.05
_JOINING, _PLACING = "PreparingRebalance", "CompletingRebalance"
_QUICK_LOOKS_WHILE_PLACING = 10
_STATE_TIMEOUT_S = 1.0  # no state only means fewer looks


@dataclass(frozen=True, slots=True)
class _Look:
    """`at`: when it was over. `looked_for`: the internal topics it would have seen; None: all topics that there are.

    `internal`: those of them that were there. `view`: None when it looked at topic names only.
    """

    at: float
    looked_for: frozenset[str] | None
    internal: frozenset[str]
    view: ClusterView | None


@dataclass(frozen=True, slots=True)
class TopicsLook:
    """The names of all topics; `at`: when it was over."""

    at: float
    topics: frozenset[str]


class ClusterLooks:
    """`definition`: gives what to look at; None while that is not known. Clock: `time.monotonic`."""

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
        """Until it is cancelled; more often while members join and when the leader begins."""
        quick_looks = 0
        while True:
            state = ""
            with contextlib.suppress(KafkaClientError, TimeoutError):  # whoever reads the records says so
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
        """One that somebody else took."""
        self._looks.append(_Look(look.at, None, look.topics, None))

    async def look(self, definition: RebalanceSnapshot) -> ClusterView:
        """Now. Raises KafkaUnavailable, KafkaRefused."""
        view = await cluster_view(self._admin, definition, offsets_timeout_s=OFFSETS_TIMEOUT_S)
        looked_for = frozenset(internal_topics(definition.topology))
        self._looks.append(_Look(time.monotonic(), looked_for, frozenset(view.existing_internal_topics), view))
        return view

    def before(self, at: float, definition: RebalanceSnapshot, after: ClusterView) -> ClusterView | None:
        """What was there at the last look that was over at `at`; None when nobody looked then."""
        earlier = [look for look in self._usable(definition) if look.at <= at]
        if not earlier:
            return None
        look = earlier[-1]
        if look.view is not None:
            return look.view
        existing = {name: topic for name, topic in after.existing_internal_topics.items() if name in look.internal}
        return ClusterView(after.cluster, existing)

    def since(self, at: float, definition: RebalanceSnapshot) -> tuple[ClusterView, ...]:
        """All later ones, in their order."""
        return tuple(look.view for look in self._usable(definition) if look.at > at and look.view is not None)

    def _usable(self, definition: RebalanceSnapshot) -> list[_Look]:
        needed = internal_topics(definition.topology)
        return [look for look in self._looks if look.looked_for is None or needed <= look.looked_for]
