"""Worker processes for tests that run rebalances without a whole service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from coordinator_api.workers.worker_pool import ServiceWorkers, WorkerPool


@asynccontextmanager
async def rebalance_workers() -> AsyncIterator[WorkerPool]:
    workers = ServiceWorkers(max_computations=1)
    try:
        yield workers.rebalances
    finally:
        await workers.close()
