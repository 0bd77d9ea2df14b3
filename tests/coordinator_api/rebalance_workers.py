"""Worker processes for tests that run rebalances without a whole service."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from coordinator_api.clock import ServiceClock
from coordinator_api.runtime.allowed_assignors import AllowedAssignors
from coordinator_api.runtime.clusters import Clusters
from coordinator_api.runtime.rebalance_runner import RebalanceResources
from coordinator_api.workers.worker_pool import ServiceWorkers, WorkerPool


def rebalance_resources(
    workers: WorkerPool,
    allowed: AllowedAssignors | None = None,
    clusters: Clusters | None = None,
    own_assignor_limit_ms: int = 60_000,
) -> RebalanceResources:
    """As of a service in which a definition may have 1,000 partitions."""
    return RebalanceResources(
        allowed or AllowedAssignors(()), workers, clusters or Clusters(), ServiceClock(), 1_000, own_assignor_limit_ms
    )


@asynccontextmanager
async def rebalance_workers() -> AsyncIterator[WorkerPool]:
    workers = ServiceWorkers(max_computations=1)
    try:
        yield workers.rebalances
    finally:
        await workers.close()
