"""A cluster provider whose answers a test sets, and a group that uses it in this process."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from assignor.pipeline.snapshot import ClusterView, RebalanceSnapshot
from assignor.topology.cluster import Broker, Cluster, TopicMetadata
from assignor.topology.internal_topics import CreatedTopic
from coordinator_api.clock import ServiceClock
from coordinator_api.group import events
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.group.outcome import AssignmentReady, JoinAnswered
from coordinator_api.runtime.clusters import Clusters, ProviderAddress
from coordinator_api.runtime.definitions import read_definition
from coordinator_api.runtime.durable_group import GroupEnvironment
from coordinator_api.runtime.group_runtime import GroupRuntime
from coordinator_api.store.recorded_documents import expanded
from coordinator_api.store.repository import Repository
from tests.coordinator_api.group_members import CHANGELOG, definition, subscription
from tests.coordinator_api.rebalance_workers import rebalance_resources, rebalance_workers
from tests.coordinator_api.store.databases import open_engine, upgraded

Value = TypeVar("Value")

ADDRESS = ProviderAddress("fake", "somewhere:9092")
PROCESS_ID = "9638c027-9105-4c73-b9ed-d0bfcb47a168"
MAX_AGE_MS = 20
MOST_PARTITIONS = 1_000
TIMEOUT_S = 30


class OutOfReach(Exception):
    retriable = True


class FakeCluster:
    """`there`: topics and their partitions; `error`: what every call raises; `offsets_known`: else end offsets are not
    to be had. `looks`: how often `topics` was asked.
    """

    def __init__(self, **there: int) -> None:
        self.there = dict(there)
        self.error: Exception | None = None
        self.create_error: Exception | None = None
        self.offsets_known = True
        self.held = threading.Event()
        self.held.set()
        self.looks = 0

    def view(self, _group_id: str, definition: RebalanceSnapshot) -> ClusterView:
        self._answer()
        known = {name: TopicMetadata(count) for name, count in self.there.items()}
        read = definition.topology.source_topics
        cluster = Cluster((Broker(1),), {name: topic for name, topic in known.items() if name in read})
        internal = {CHANGELOG: known[CHANGELOG]} if CHANGELOG in known else {}
        ends = {name: (0,) * metadata.partitions for name, metadata in internal.items()}
        return ClusterView(cluster, internal, ends if self.offsets_known else None)

    def topics(self, _definition: RebalanceSnapshot) -> Mapping[str, int]:
        self.looks += 1
        self._answer()
        return dict(self.there)

    def all_topics(self) -> Mapping[str, int]:
        self.looks += 1
        self._answer()
        return dict(self.there)

    def create_topics(self, topics: Mapping[str, CreatedTopic]) -> None:
        self._answer()
        if self.create_error is not None:
            raise self.create_error
        self.there |= {name: topic.partitions for name, topic in topics.items()}

    def close(self) -> None:
        """Nothing to close."""

    def _answer(self) -> None:
        self.held.wait(TIMEOUT_S)
        if self.error is not None:
            raise self.error


class OnlyTheFake(Clusters):
    """One provider, that is there without being installed."""

    def __init__(self, cluster: FakeCluster, timeout_ms: int) -> None:
        super().__init__(timeout_ms=timeout_ms)
        self._cluster = cluster

    def check(self, address: ProviderAddress) -> None:
        assert address == ADDRESS

    def provider(self, address: ProviderAddress) -> FakeCluster:
        self.check(address)
        return self._cluster


class WatchedGroup:
    """A group with one member; `runtime` is the real thing, on a real store."""

    def __init__(self, runtime: GroupRuntime, cluster: FakeCluster, clusters: Clusters, repository: Repository) -> None:
        self.runtime = runtime
        self.repository = repository
        self.cluster = cluster
        self.clusters = clusters
        self.member_id = ""
        self._joins = 0

    async def declare(self, patterns: Sequence[str] = ()) -> None:
        """`patterns`: the source patterns of the only subtopology, in place of its topic."""
        document = definition(cluster={"provider": "fake", "bootstrap.servers": "somewhere:9092"})
        if patterns:
            document["topology"]["subtopologies"][0] |= {"source_topics": [], "source_patterns": [*patterns]}
        document = {key: document[key] for key in ("assignor", "configs", "application_id", "topology", "cluster")}
        await self.runtime.handle(events.DeclareGroup(read_definition(document, "g", MOST_PARTITIONS, self.clusters)))

    async def join(self) -> int:
        """Join, or rejoin; gives the generation to wait for."""
        self._joins += 1
        joined = await self.runtime.handle(
            events.Join(
                subscription(PROCESS_ID, {"0_0": self._joins}),
                600_000,
                600_000,
                new_member_id="m1",
                member_id=self.member_id or None,
            )
        )
        assert isinstance(joined, JoinAnswered), joined
        self.member_id = joined.member_id
        return joined.generation_id

    async def fetch(self, generation_id: int) -> AssignmentReady:
        fetch = events.FetchAssignment(self.member_id, generation_id)
        fetched = await self.runtime.wait_for_assignment(fetch, TIMEOUT_S, asyncio.Event().wait)
        assert isinstance(fetched, AssignmentReady), fetched
        return fetched

    async def recorded(self, generation_id: int) -> dict[str, Any]:
        document = await self.repository.rebalance("g", generation_id)
        assert document is not None
        recorded: dict[str, Any] = json.loads(b"".join(expanded(document)))
        return recorded

    async def until(self, holds: Callable[[], object], what: str) -> None:
        """Looks come from threads and timers: nothing else tells when one has been taken in."""
        give_up_at = time.monotonic() + TIMEOUT_S
        while not holds():
            assert time.monotonic() < give_up_at, f"waited for {what}"
            await asyncio.sleep(0.002)

    async def some_looks(self, number: int = 4) -> None:
        """Wait until the cluster was looked at that often from now on."""
        enough = self.cluster.looks + number
        await self.until(lambda: self.cluster.looks >= enough, "looks at the cluster")


@asynccontextmanager
async def watched(directory: Path, cluster: FakeCluster, timeout_ms: int = 10_000) -> AsyncIterator[WatchedGroup]:
    """A group on a real store that watches `cluster`; closed with the context."""
    async with open_engine(directory) as engine:
        await upgraded(engine)
        repository = Repository(engine, 100)
        clusters = OnlyTheFake(cluster, timeout_ms)
        async with rebalance_workers() as workers:
            limits = GroupLimits(initial_rebalance_delay_ms=0)
            environment = GroupEnvironment(repository, ServiceClock(), limits, 2**30, MAX_AGE_MS)
            resources = rebalance_resources(workers, clusters=clusters)
            runtime = GroupRuntime(await repository.load_group("g"), environment, resources)
            try:
                yield WatchedGroup(runtime, cluster, clusters, repository)
            finally:
                cluster.held.set()
                await runtime.close()
                clusters.close()
