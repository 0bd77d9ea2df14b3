"""Runs one rebalance of a group: computes the assignments and a recording from the definition and the subscriptions.

A rebalance may take seconds, so it is computed in a worker process. If the result is no longer needed, the worker
process is killed. If the definition names a cluster, the runner first polls this cluster. Before the members get the
result, the runner creates the internal topics that the rebalance needs. While the cluster is out of reach, the
rebalance waits.
"""

import asyncio
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from assignor.pipeline.snapshot import RebalanceSnapshot
from assignor.topology.source_patterns import ExpandedTopology, expanded
from assignor.types import ProcessId
from coordinator_api.clock import ServiceClock
from coordinator_api.group.outcome import RunRebalance
from coordinator_api.runtime.allowed_assignors import AllowedAssignors
from coordinator_api.runtime.clusters import ClusterConnection, ClusterOutOfReach, Clusters, ProviderAddress
from coordinator_api.runtime.definitions import Definition, read_input
from coordinator_api.runtime.rebalance_work import ClusterNamed, ComputedRebalance, RebalanceJob, compute, topic_counts
from coordinator_api.workers.worker_pool import JobTookTooLong, WorkerDied, WorkerPool, WorkersUnavailable

CLUSTER_POLL_TIMEOUT_MS = 5_000
"""The time limit of a poll of the cluster that is not part of a rebalance."""

ATTEMPTS = 3
"""The largest number of attempts to compute a rebalance. If the worker dies in every attempt, the rebalance fails."""


@dataclass(frozen=True, slots=True)
class RebalanceResources:
    """The objects that the rebalances of all groups of one service share.

    `max_partitions`: the setting group.max.partitions. `own_assignor_limit_ms`: the time limit of a rebalance with a
    user's own assignor (the setting task.assignor.timeout.ms).
    """

    allowed: AllowedAssignors
    workers: WorkerPool
    clusters: Clusters
    clock: ServiceClock
    max_partitions: int
    own_assignor_limit_ms: int


class RebalanceRunner:
    """Runs the rebalances of one group, one after the other."""

    def __init__(self, group_id: str, resources: RebalanceResources) -> None:
        self._group_id = group_id
        self._resources = resources
        self._parsed: tuple[str, Definition] | None = None

    async def run(self, rebalance: RunRebalance) -> ComputedRebalance:
        """Runs a rebalance. The result is a failed rebalance if an assignor or a cluster raises an error. The result is
        also a failed rebalance if the worker dies in every attempt. Raises ClusterOutOfReach or WorkersUnavailable if
        the rebalance has to run again later. Raises InputError if the definition cannot be read.
        """
        job = self._job(rebalance)
        try:
            computed = await self._computed(job)
        except (WorkerDied, JobTookTooLong) as fault:
            return await self._failed(job, fault)
        if isinstance(computed, ComputedRebalance):
            return computed
        return await self._run_on(computed.provider, job)

    async def topics(self, input_json: str) -> Mapping[str, int]:
        """Returns the present partition count of each topic of the definition; 0 for a topic that does not exist.
        Raises ClusterOutOfReach.
        """
        definition = await self.definition(input_json)
        assert definition.provider is not None, "only a group that names a cluster has one to poll"
        cluster = self._resources.clusters.cluster(definition.provider)
        declared, _ = await self._matched(definition.snapshot, cluster)
        return topic_counts(declared.topology, await cluster.topics(declared))

    async def seen_now(self, input_json: str) -> RebalanceSnapshot:
        """Returns the definition with the present state of its cluster. Raises ClusterOutOfReach, and the errors of
        `_matched`.
        """
        definition = await self.definition(input_json)
        if definition.provider is None:
            return definition.snapshot
        cluster = self._resources.clusters.cluster(definition.provider)
        declared, _ = await self._matched(definition.snapshot, cluster)
        return declared.seen(await cluster.view(self._group_id, declared, CLUSTER_POLL_TIMEOUT_MS))

    async def definition(self, input_json: str) -> Definition:
        """Returns the parsed definition. The last parsed definition is cached."""
        return await asyncio.to_thread(self._read, input_json)

    async def _run_on(self, address: ProviderAddress, job: RebalanceJob) -> ComputedRebalance:
        """Runs the rebalance with the cluster that the definition names."""
        try:
            cluster = self._resources.clusters.cluster(address)
            declared, sources = await self._matched((await self.definition(job.rebalance.input_json)).snapshot, cluster)
            job = replace(job, sources=sources)
            view = await cluster.view(self._group_id, declared)
            job = replace(job, view=view, now_ms=self._resources.clock.now_ms())
            computed = await self._computed(job)
            assert isinstance(computed, ComputedRebalance), "the cluster has been polled"
            if computed.created_topics:
                await cluster.create_topics(computed.created_topics)
                if declared.configs.rack_aware:  # the racks of the new topics are only known after their creation
                    after = await cluster.view(self._group_id, declared)
                    job = replace(job, view=view.with_created(computed.created_topics, after))
                    computed = await self._computed(job)
                    assert isinstance(computed, ComputedRebalance), "the cluster has been polled"
            return computed
        except (ClusterOutOfReach, WorkersUnavailable):
            raise
        except Exception as fault:  # for example, the service's settings no longer list the cluster
            return await self._failed(job, fault)

    async def _matched(
        self, declared: RebalanceSnapshot, cluster: ClusterConnection
    ) -> tuple[RebalanceSnapshot, ExpandedTopology | None]:
        """Returns the definition with the topics that match its source patterns now; unchanged and None if it has no
        patterns. Expands the patterns in a worker process and with a time limit, because a caller's pattern may need
        exponential time. Raises ClusterOutOfReach, TopologyError, JobTookTooLong, WorkerDied or WorkersUnavailable.
        """
        if not declared.topology.source_patterns:
            return declared, None
        sources = await self._resources.workers.run(
            expanded,
            declared.topology,
            declared.application_id,
            tuple(await cluster.all_topics()),
            limit_ms=self._resources.own_assignor_limit_ms,
        )
        return replace(declared, topology=sources.topology), sources

    async def _failed(self, job: RebalanceJob, fault: Exception) -> ComputedRebalance:
        failed = await self._computed(replace(job, failure=f"{type(fault).__name__}: {fault}"))
        assert isinstance(failed, ComputedRebalance), "nothing is left to poll"
        return failed

    async def _computed(self, job: RebalanceJob) -> ComputedRebalance | ClusterNamed:
        """Computes the rebalance. If the worker dies, computes the rebalance again. A failed rebalance ends the
        application in all members, so a rebalance must not fail because of one killed worker process. Raises
        WorkersUnavailable. Raises WorkerDied after `ATTEMPTS` dead workers, because the rebalance itself is then
        probably the cause.
        """
        limited = job.failure is None and self._names_own_assignor(job.rebalance.input_json)
        limit_ms = self._resources.own_assignor_limit_ms if limited else None
        for _ in range(ATTEMPTS - 1):
            with suppress(WorkerDied):
                return await self._resources.workers.run(compute, job, limit_ms=limit_ms)
        return await self._resources.workers.run(compute, job, limit_ms=limit_ms)

    def _names_own_assignor(self, input_json: str) -> bool:
        """Returns whether the text of the definition contains the path of a user's own assignor. The path may also
        occur in another field, such as a topic name. In this case, the time limit also applies, although it is not
        needed. This does no harm.
        """
        return any(f'"{path}"' in input_json for path in self._resources.allowed.class_paths)

    def _job(self, rebalance: RunRebalance) -> RebalanceJob:
        return RebalanceJob(
            group_id=self._group_id,
            rebalance=rebalance,
            now_ms=self._resources.clock.now_ms(),
            future_process_id=ProcessId.from_bytes(uuid.uuid4().bytes),
            assignor_classes=self._resources.allowed.class_paths,
            max_partitions=self._resources.max_partitions,
        )

    def _read(self, input_json: str) -> Definition:
        """Parses the definition, or returns the cached definition. Several threads call `_read`, so the cache is one
        tuple, which is replaced as a whole.
        """
        parsed = self._parsed
        if parsed is None or parsed[0] != input_json:
            parsed = self._parsed = (input_json, read_input(input_json))
        return parsed[1]
