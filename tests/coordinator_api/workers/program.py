"""A service that is killed in the middle of a job: `python -m ... FIFO`."""

import asyncio
import sys
from pathlib import Path

from coordinator_api.workers.worker_pool import ForkedWorkers, WorkerPool
from tests.coordinator_api.workers import jobs


async def main() -> None:
    await WorkerPool(1, ForkedWorkers()).run(jobs.hold, Path(sys.argv[1]))


if __name__ == "__main__":
    asyncio.run(main())
