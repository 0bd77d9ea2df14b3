"""One round of a group: the definition and the members' subscriptions in, assignments and a recording out.

It may take seconds, so it is computed in a thread beside the event loop. A cluster that the definition only names is
looked at first, and what the round needs there is created last, before any member hears of the round; a cluster that is
out of reach ends neither the round nor the group, the round waits for it. What it records is what it ran: the same
`rebalance/1` line through `assignor assign --check` gives the same result.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial

from assignor import pipeline
from assignor.errors import InputError
from assignor.protocol.consumer_protocol import decode_subscription
from assignor.protocol.subscription_info import SubscriptionInfo, decode_subscription_info
from assignor.protocol.versions import LATEST_SUPPORTED_VERSION
from assignor.recording import rebalance_document
from assignor.snapshot import Member, RebalanceResult, RebalanceSnapshot
from assignor.topology.repartition_topics import missing_source_topics
from assignor.types import AssignorErrorCode, ProcessId
from coordinator_api.clock import SteadyClock
from coordinator_api.clusters.clusters import ClusterOutOfReach, Clusters
from coordinator_api.clusters.providers import ClusterProviders, ProviderAddress
from coordinator_api.group.events import AssignmentComputed, RebalanceFailed
from coordinator_api.group.outcome import RunRebalance
from coordinator_api.group.states import RebalanceOutcome
from coordinator_api.groups.definitions import AllowedAssignors, Definition, read_input
from coordinator_api.groups.rebalance_topics import topic_counts, topics_after
from coordinator_api.store.repository import Recording


@dataclass(frozen=True, slots=True)
class ComputedRebalance:
    """`event` goes back to the group; `document` is the rebalance/1 to keep once the group has taken it.

    `looked`: a cluster was looked at, and answered.
    """

    event: AssignmentComputed | RebalanceFailed
    document: Mapping[str, object]
    now_ms: int
    looked: bool = False

    def recording(self, effect: RunRebalance, outcome: RebalanceOutcome) -> Recording:
        """The round as it is stored. Compresses, so it belongs in a thread for large groups."""
        output = self.document["output"]
        assert isinstance(output, dict)
        summary = {
            "generation_id": effect.generation_id,
            "now_ms": self.now_ms,
            "reason": effect.reason,
            "outcome": str(outcome),
            "members": len(effect.members),
            "definition_revision": effect.definition_revision,
            "probing_rebalance_at_ms": output["probing_rebalance_at_ms"],
            "followup_rebalance": output["followup_rebalance"],
            "error": output["error"] or self._error_told(),
        }
        # a fixed time stamp: the same rebalance is the same bytes
        noted = {**self.document, "note": effect.reason}  # what only the group knows of how the round began
        document = gzip.compress(json.dumps(noted, separators=(",", ":")).encode("ascii"), mtime=0)
        return Recording(effect.generation_id, self.now_ms, json.dumps(summary), document)

    def _error_told(self) -> str | None:
        """The code of an error assignment: nothing was thrown, so `output` does not have it."""
        if not isinstance(self.event, AssignmentComputed):
            return None
        code = self.event.result.error_code
        missing = f": {', '.join(self.event.missing_topics)}" if self.event.missing_topics else ""
        return None if code is AssignorErrorCode.NONE else f"{code.name}{missing}"


class RebalanceRunner:
    """Runs the rounds of one group, one after the other; keeps the definition parsed between them."""

    def __init__(
        self,
        group_id: str,
        allowed: AllowedAssignors,
        new_process_id: Callable[[], ProcessId],
        clusters: Clusters | None = None,
    ) -> None:
        self._group_id = group_id
        self._allowed = allowed
        self._new_process_id = new_process_id
        self._clusters = clusters or Clusters(ClusterProviders())
        self._kept: tuple[int, Definition] | None = None

    async def run(self, effect: RunRebalance, clock: SteadyClock, threads: Executor) -> ComputedRebalance:
        """Whatever a group or a user's assignor does is a failed round. Raises only ClusterOutOfReach: nothing has been
        decided, run it again later.
        """
        loop = asyncio.get_running_loop()
        snapshot, address = await loop.run_in_executor(threads, self._prepared, effect)
        if address is None:
            return await loop.run_in_executor(threads, self._computed, effect, snapshot, clock.now_ms(), False)
        cluster = self._clusters.cluster(address)
        topics: Mapping[str, int] = {}
        try:
            snapshot = snapshot.seen(await cluster.view(self._group_id, snapshot))
            computed = await loop.run_in_executor(threads, self._computed, effect, snapshot, clock.now_ms(), True)
            if isinstance(computed.event, AssignmentComputed) and computed.event.result.created_topics:
                topics = topics_after(snapshot, RebalanceResult({}))
                await cluster.create_topics(computed.event.result.created_topics)
            return computed
        except ClusterOutOfReach:
            raise
        except Exception as fault:  # the cluster refuses, or the service's settings do not list it any more
            failed = partial(self._failed, effect, snapshot, clock.now_ms(), _in_words(fault), topics)
            return await loop.run_in_executor(threads, failed)

    async def topics(self, revision: int, input_json: str) -> Mapping[str, int]:
        """The partitions of the definition's topics now, 0 for one that does not exist. Raises ClusterOutOfReach."""
        definition = await asyncio.to_thread(self._read, revision, input_json)
        assert definition.provider is not None, "only a group that names a cluster has one to look at"
        there = await self._clusters.cluster(definition.provider).topics(definition.snapshot)
        return topic_counts(definition.snapshot.topology, there)

    async def definition(self, revision: int, input_json: str) -> Definition:
        """As it was declared."""
        return await asyncio.to_thread(self._read, revision, input_json)

    def _prepared(self, effect: RunRebalance) -> tuple[RebalanceSnapshot, ProviderAddress | None]:
        definition = self._read(effect.definition_revision, effect.input_json)
        return self._snapshot(effect, definition.snapshot), definition.provider

    def _computed(
        self, effect: RunRebalance, snapshot: RebalanceSnapshot, now_ms: int, looked: bool
    ) -> ComputedRebalance:
        """`looked`: the snapshot was seen on a cluster."""
        try:
            result = pipeline.assign(snapshot, now_ms, self._allowed.load(snapshot.assignor))
        except Exception as fault:  # a user's own assignor may raise anything
            seen = topics_after(snapshot, RebalanceResult({})) if looked else {}
            return self._failed(effect, snapshot, now_ms, _in_words(fault), seen)
        topics = topics_after(snapshot, result) if looked else {}
        incomplete = looked and result.error_code is AssignorErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA
        missing = missing_source_topics(snapshot.topology, snapshot.cluster) if incomplete else ()
        event = AssignmentComputed(effect.generation_id, result, topics, missing)
        return ComputedRebalance(event, self._document(effect, snapshot, result, now_ms), now_ms, looked)

    def _failed(
        self, effect: RunRebalance, snapshot: RebalanceSnapshot, now_ms: int, error: str, topics: Mapping[str, int]
    ) -> ComputedRebalance:
        document = self._document(effect, snapshot, RebalanceResult({}), now_ms)
        output = document["output"]
        assert isinstance(output, dict)
        output["error"] = error
        failed = RebalanceFailed(effect.generation_id, error, topics)
        return ComputedRebalance(failed, document, now_ms, looked=bool(topics))

    def _document(
        self, effect: RunRebalance, snapshot: RebalanceSnapshot, result: RebalanceResult, now_ms: int
    ) -> dict[str, object]:
        return rebalance_document(
            id=f"{self._group_id}-{effect.generation_id}",
            group_id=self._group_id,
            generation_id=effect.generation_id,
            now_ms=now_ms,
            source="coordinator",
            snapshot=snapshot,
            result=result,
        )

    def _read(self, revision: int, input_json: str) -> Definition:
        """From several threads: what is kept is one value, read and replaced whole."""
        kept = self._kept
        if kept is None or kept[0] != revision:
            kept = self._kept = (revision, read_input(input_json))
        return kept[1]

    def _snapshot(self, effect: RunRebalance, declared: RebalanceSnapshot) -> RebalanceSnapshot:
        future = declared.future_process_id
        if future is None and _has_future_member(effect.members):
            future = self._new_process_id()
        return replace(declared, members=effect.members, future_process_id=future)


def _in_words(fault: Exception) -> str:
    return f"{type(fault).__name__}: {fault}"


def _has_future_member(members: Mapping[str, Member]) -> bool:
    """Whether Kafka's leader would draw a random id for members of a version it does not know."""
    return any(read_subscription(member.subscription).version > LATEST_SUPPORTED_VERSION for member in members.values())


def read_subscription(subscription: bytes) -> SubscriptionInfo:
    """The user data of a ConsumerProtocolSubscription. Raises DecodeError, or InputError where there is none."""
    user_data = decode_subscription(subscription).user_data
    if not user_data:
        raise InputError("has no user data: a Kafka Streams member sends a SubscriptionInfo", "subscription")
    return decode_subscription_info(user_data)
