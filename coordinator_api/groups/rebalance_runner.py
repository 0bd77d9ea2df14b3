"""One rebalance of a group: the definition and the members' subscriptions in, assignments and a recording out.

A rebalance may take seconds, so it is computed in a thread beside the event loop. When the definition names a cluster,
the runner looks at it first, and creates the internal topics that the rebalance needs last, before any member hears of
the result. While the cluster is out of reach nothing is decided: the rebalance waits. What is recorded is what ran: the
same `rebalance/1` line gives the same result through `assignor assign --check`.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial

from assignor import pipeline
from assignor.protocol.versions import LATEST_SUPPORTED_VERSION
from assignor.recording import rebalance_document
from assignor.snapshot import CreatedTopic, Member, RebalanceResult, RebalanceSnapshot
from assignor.topology.group_topology import GroupTopology
from assignor.topology.repartition_topics import missing_source_topics
from assignor.types import AssignorErrorCode, ProcessId
from coordinator_api.clock import SteadyClock
from coordinator_api.clusters.clusters import ClusterConnection, ClusterOutOfReach, Clusters
from coordinator_api.clusters.providers import ClusterProviders, ProviderAddress
from coordinator_api.group.events import AssignmentComputed, RebalanceFailed
from coordinator_api.group.outcome import RunRebalance
from coordinator_api.group.rebalance_result import computed_assignments
from coordinator_api.group.states import RebalanceOutcome
from coordinator_api.group.subscriptions import read_subscription
from coordinator_api.groups.allowed_assignors import AllowedAssignors
from coordinator_api.groups.definitions import Definition, read_input
from coordinator_api.store.repository import Recording


@dataclass(frozen=True, slots=True)
class ComputedRebalance:
    """`event` goes back to the group; `document` is the rebalance/1 to keep once the group has taken the event."""

    event: AssignmentComputed | RebalanceFailed
    document: Mapping[str, object]
    now_ms: int
    created_topics: Mapping[str, CreatedTopic] = field(default_factory=dict)

    @property
    def cluster_answered(self) -> bool:
        """Whether a cluster was looked at, and answered."""
        return bool(self.event.topics)

    def recording(self, effect: RunRebalance, outcome: RebalanceOutcome) -> Recording:
        """The rebalance as it is stored. Compresses, so it belongs in a thread for large groups."""
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
            "error": output["error"] or self._assigned_error(),
        }
        noted = {**self.document, "note": effect.reason}  # only the group knows why the rebalance began
        # a fixed time stamp: the same rebalance is the same bytes
        document = gzip.compress(json.dumps(noted, separators=(",", ":")).encode("ascii"), mtime=0)
        return Recording(effect.generation_id, self.now_ms, json.dumps(summary), document)

    def _assigned_error(self) -> str | None:
        """The code of an error assignment: the pipeline did not throw, so `output` has no error."""
        if not isinstance(self.event, AssignmentComputed):
            return None
        code = AssignorErrorCode(self.event.rebalance.error_code)
        missing = f": {', '.join(self.event.missing_topics)}" if self.event.missing_topics else ""
        return None if code is AssignorErrorCode.NONE else f"{code.name}{missing}"


class RebalanceRunner:
    """Runs the rebalances of one group, one after the other; keeps the definition parsed between them."""

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
        self._parsed: tuple[int, Definition] | None = None

    async def run(self, effect: RunRebalance, clock: SteadyClock, threads: Executor) -> ComputedRebalance:
        """Whatever an assignor or a cluster raises makes a failed rebalance. Raises only ClusterOutOfReach: nothing has
        been decided, run the rebalance again later.
        """
        loop = asyncio.get_running_loop()
        snapshot, address = await loop.run_in_executor(threads, self._prepare, effect)
        if address is None:
            return await loop.run_in_executor(threads, self._compute, effect, snapshot, clock.now_ms())
        seen: Mapping[str, int] = {}
        try:
            cluster = self._clusters.cluster(address)
            snapshot = snapshot.seen(await cluster.view(self._group_id, snapshot))
            seen = topics_after(snapshot, RebalanceResult())
            computed = await loop.run_in_executor(threads, self._compute_as_seen, effect, snapshot, clock.now_ms())
            await _create_topics(cluster, computed)
            return computed
        except ClusterOutOfReach:
            raise
        except Exception as fault:  # the cluster refuses, or the service's settings do not list it any more
            failed = partial(self._failed, effect, snapshot, clock.now_ms(), fault, seen)
            return await loop.run_in_executor(threads, failed)

    async def topics(self, revision: int, input_json: str) -> Mapping[str, int]:
        """The partitions of the definition's topics now, 0 for one that does not exist. Raises ClusterOutOfReach."""
        definition = await asyncio.to_thread(self._read, revision, input_json)
        assert definition.provider is not None, "only a group that names a cluster has one to look at"
        existing = await self._clusters.cluster(definition.provider).topics(definition.snapshot)
        return topic_counts(definition.snapshot.topology, existing)

    async def definition(self, revision: int, input_json: str) -> Definition:
        """As it was declared."""
        return await asyncio.to_thread(self._read, revision, input_json)

    def _prepare(self, effect: RunRebalance) -> tuple[RebalanceSnapshot, ProviderAddress | None]:
        """The definition with the members, and where to look at its cluster; None when it describes the cluster."""
        definition = self._read(effect.definition_revision, effect.input_json)
        declared = definition.snapshot
        future = declared.future_process_id
        if future is None and _has_future_member(effect.members):
            future = self._new_process_id()
        return replace(declared, members=effect.members, future_process_id=future), definition.provider

    def _compute(self, effect: RunRebalance, snapshot: RebalanceSnapshot, now_ms: int) -> ComputedRebalance:
        """On the cluster that the definition describes."""
        try:
            result = self._assign(snapshot, now_ms)
        except Exception as fault:  # a user's own assignor may raise anything
            return self._failed(effect, snapshot, now_ms, fault, {})
        rebalance = computed_assignments(effect.members, effect.definition_revision, result)
        event = AssignmentComputed(effect.generation_id, rebalance)
        return ComputedRebalance(event, self._document(effect, snapshot, result, now_ms), now_ms)

    def _compute_as_seen(self, effect: RunRebalance, snapshot: RebalanceSnapshot, now_ms: int) -> ComputedRebalance:
        """On the cluster that the definition names. `snapshot`: with the cluster as it was seen."""
        try:
            result = self._assign(snapshot, now_ms)
        except Exception as fault:  # a user's own assignor may raise anything
            return self._failed(effect, snapshot, now_ms, fault, topics_after(snapshot, RebalanceResult()))
        incomplete = result.error_code is AssignorErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA
        missing = missing_source_topics(snapshot.topology, snapshot.cluster) if incomplete else ()
        rebalance = computed_assignments(effect.members, effect.definition_revision, result)
        event = AssignmentComputed(effect.generation_id, rebalance, topics_after(snapshot, result), missing)
        document = self._document(effect, snapshot, result, now_ms)
        return ComputedRebalance(event, document, now_ms, result.created_topics)

    def _assign(self, snapshot: RebalanceSnapshot, now_ms: int) -> RebalanceResult:
        return pipeline.assign(snapshot, now_ms, self._allowed.load(snapshot.assignor))

    def _failed(
        self,
        effect: RunRebalance,
        snapshot: RebalanceSnapshot,
        now_ms: int,
        fault: Exception,
        topics: Mapping[str, int],
    ) -> ComputedRebalance:
        """`topics`: as the cluster had them, empty when nobody looked or it did not answer."""
        error = f"{type(fault).__name__}: {fault}"
        document = self._document(effect, snapshot, RebalanceResult(), now_ms)
        output = document["output"]
        assert isinstance(output, dict)
        output["error"] = error
        return ComputedRebalance(RebalanceFailed(effect.generation_id, error, topics), document, now_ms)

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
        """Called from several threads: what is kept is one value, read and replaced whole."""
        parsed = self._parsed
        if parsed is None or parsed[0] != revision:
            parsed = self._parsed = (revision, read_input(input_json))
        return parsed[1]


async def _create_topics(cluster: ClusterConnection, computed: ComputedRebalance) -> None:
    if computed.created_topics:
        await cluster.create_topics(computed.created_topics)


def _has_future_member(members: Mapping[str, Member]) -> bool:
    """Whether Kafka's leader would draw a random id for members of a version it does not know."""
    return any(read_subscription(member.subscription).version > LATEST_SUPPORTED_VERSION for member in members.values())


def topic_counts(topology: GroupTopology, existing: Mapping[str, int]) -> dict[str, int]:
    """The partitions of every topic that the topology reads or keeps, 0 for one that does not exist."""
    names = {topic for each in topology.subtopologies for topic in each.source_topics}
    names |= {topic.name for each in topology.subtopologies for topic in each.repartition_source_topics}
    stores = [store for each in topology.subtopologies for store in each.stores]
    names |= {store.changelog_topic for store in stores if store.changelog_topic is not None}
    return {topic: existing.get(topic, 0) for topic in sorted(names)}


def topics_after(snapshot: RebalanceSnapshot, result: RebalanceResult) -> dict[str, int]:
    """The topics as the rebalance left them: those it saw, and those that were created for it."""
    known = {**snapshot.cluster.topics, **snapshot.existing_internal_topics}
    existing = {topic: metadata.partitions for topic, metadata in known.items()}
    created = {topic: one.partitions for topic, one in result.created_topics.items()}
    return topic_counts(snapshot.topology, {**existing, **created})
