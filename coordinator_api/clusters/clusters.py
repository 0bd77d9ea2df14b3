"""Clusters as the event loop asks them: in threads, each call with a time limit.

Rules: a cluster that does not answer holds up neither the event loop nor the groups of other clusters, so every cluster
has a few threads of its own. An error that means that the cluster is out of reach becomes `ClusterOutOfReach`; any
other error of the provider is passed on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from assignor.errors import AssignorFault
from assignor.snapshot import ClusterView, RebalanceSnapshot
from assignor.topology.internal_topics import CreatedTopic
from coordinator_api.clusters.providers import ClusterProvider, ClusterProviders, ProviderAddress, is_retriable

Answer = TypeVar("Answer")

THREADS_OF_A_CLUSTER = 4


class ClusterOutOfReach(AssignorFault):
    """The cluster did not answer, or not in time; asking again later may help. The message is one line for people."""


class ClusterConnection:
    """One cluster. Every method raises ClusterOutOfReach, and whatever else the provider raises."""

    def __init__(self, providers: ClusterProviders, address: ProviderAddress, timeout_ms: int) -> None:
        self.address = address
        self._providers = providers
        self._timeout_ms = timeout_ms
        self._threads = ThreadPoolExecutor(max_workers=THREADS_OF_A_CLUSTER, thread_name_prefix="cluster")

    async def view(self, group_id: str, definition: RebalanceSnapshot, timeout_ms: int | None = None) -> ClusterView:
        return await self._ask(lambda provider: provider.view(group_id, definition), timeout_ms)

    async def topics(self, definition: RebalanceSnapshot) -> Mapping[str, int]:
        return await self._ask(lambda provider: provider.topics(definition))

    async def create_topics(self, topics: Mapping[str, CreatedTopic]) -> None:
        await self._ask(lambda provider: provider.create_topics(topics))

    def close(self) -> None:
        """Ask nothing more. A call that is under way ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _ask(self, call: Callable[[ClusterProvider], Answer], timeout_ms: int | None = None) -> Answer:
        bound_ms = self._timeout_ms if timeout_ms is None else min(timeout_ms, self._timeout_ms)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(bound_ms / 1000):
                return await loop.run_in_executor(self._threads, self._in_thread, call)
        except TimeoutError:
            raise ClusterOutOfReach(
                f"{self.address} did not answer within {bound_ms} ms (cluster.request.timeout.ms)"
            ) from None

    def _in_thread(self, call: Callable[[ClusterProvider], Answer]) -> Answer:
        try:
            return call(self._providers.provider(self.address))
        except Exception as error:
            if is_retriable(error):
                said = str(error) or type(error).__name__
                raise ClusterOutOfReach(f"{self.address} is out of reach: {said}") from error
            raise


class Clusters:
    """The clusters that the groups of one service name, by address."""

    def __init__(self, providers: ClusterProviders, timeout_ms: int = 30_000) -> None:
        self.providers = providers
        self._timeout_ms = timeout_ms
        self._clusters: dict[ProviderAddress, ClusterConnection] = {}

    def cluster(self, address: ProviderAddress) -> ClusterConnection:
        if address not in self._clusters:
            self._clusters[address] = ClusterConnection(self.providers, address, self._timeout_ms)
        return self._clusters[address]

    def close(self) -> None:
        for cluster in self._clusters.values():
            cluster.close()
        self.providers.close()
