"""The worker processes of one service: some for rebalances, others for what callers ask to be computed or read.

Each kind has its own, so that a caller's forecast never keeps a group waiting. All stand back for the serving process,
and computations for rebalances.
"""

from __future__ import annotations

import os

import structlog

from assignor.errors import AssignorFault
from coordinator_api.background_tasks import BackgroundTasks
from coordinator_api.workers.forked_workers import ForkedWorkers
from coordinator_api.workers.worker_pool import PoolClosed, WorkerPool

MODULES = (
    "coordinator_api.groups.rebalance_work",
    "coordinator_api.groups.reported_rebalances",
    "coordinator_api.http.computations",  # a name only: nothing here calls it
    "coordinator_api.http.json_objects",
    "coordinator_api.http.page_computations",
    "coordinator_api.http.task_stories",
)
"""What workers need, imported before they are forked."""

_forked = ForkedWorkers(MODULES)
"""One for all services of this process; it starts with the first worker, and ends with the process."""

_MOST_REBALANCES = 4
_MORE_READERS = 2
_NICE_REBALANCES, _NICE_COMPUTATIONS = 3, 10


class ServiceWorkers:
    """`rebalances` and `computations`. Belongs to one event loop."""

    def __init__(self, max_computations: int) -> None:
        """`max_computations`: how many are admitted at one time; large documents can be read beside them."""
        self.rebalances = WorkerPool(min(_MOST_REBALANCES, os.cpu_count() or 1), _forked, nice=_NICE_REBALANCES)
        self.computations = WorkerPool(max_computations + _MORE_READERS, _forked, nice=_NICE_COMPUTATIONS)
        self._tasks = BackgroundTasks()

    def warm_up(self) -> None:
        """Have processes ready soon, so that the first rebalance need not wait for them."""
        self._tasks.start(self._warm_up())

    def end_computations(self) -> None:
        """Kill them, whatever they do: a stop does not wait for what can be asked again elsewhere."""
        self.computations.begin_close()

    async def close(self) -> None:
        """Kill all, whatever they do."""
        await self.rebalances.close()
        await self.computations.close()

    async def _warm_up(self) -> None:
        try:
            await self.rebalances.warm_up()
            await self.computations.warm_up()
        except PoolClosed:
            return
        except AssignorFault as fault:  # the next job will say so to its caller
            structlog.get_logger("coordinator_api").error("workers_unavailable", error=str(fault))
