"""Runs the rebalances that a group requests, one after the other, and passes each result to the group.

If a new rebalance becomes due, the rebalance that is being computed is void. A void rebalance is no longer needed. If a
void rebalance runs for longer than `VOID_AFTER_S`, it is cancelled. If a void rebalance ends earlier, the group
discards its result. A rebalance runs again later if the cluster is out of reach, or if no worker process can be
started. After any other failure, the group gets a failed result, because its members would wait for ever without a
result.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from anyio import move_on_after

from coordinator_api.group.events import AssignmentComputed, ComputedAssignments
from coordinator_api.group.outcome import RunRebalance
from coordinator_api.runtime.clusters import ClusterOutOfReach, ClusterStanding
from coordinator_api.runtime.durable_group import RecordingFor
from coordinator_api.runtime.rebalance_runner import RebalanceRunner
from coordinator_api.runtime.rebalance_work import ComputedRebalance
from coordinator_api.runtime.telemetry import GroupTelemetry
from coordinator_api.store.store_errors import StoreError
from coordinator_api.workers.worker_pool import PoolClosed, WorkersUnavailable

HandBack = Callable[[AssignmentComputed, RecordingFor | None], Awaitable[object]]
"""A function that passes the result of a rebalance to the group. The second argument is a function that returns the
recording to store. Raises StoreError.
"""

VOID_AFTER_S = 0.2
"""A rebalance that is no longer needed may run for this time before it is cancelled. A shorter rebalance ends by itself
before its worker process could be killed.
"""

WORKERS_RETRY_MS = 1_000
"""If no worker process could be started, for example for lack of memory, a rebalance runs again after this time.
"""

IsWanted = Callable[[RunRebalance], bool]
"""A function that returns whether the group still waits for this rebalance."""


@dataclass(eq=False)
class RebalanceLoop:
    """Runs the rebalances of one group. `retry_ms`: if the cluster is out of reach, a rebalance runs again after this
    time.
    """

    _runner: RebalanceRunner
    _cluster: ClusterStanding
    _telemetry: GroupTelemetry
    _retry_ms: int
    _hand_back: HandBack
    _is_wanted: IsWanted

    def __post_init__(self) -> None:
        self._due: RunRebalance | None = None
        self._computing: asyncio.Task[ComputedRebalance] | None = None
        self._began_at_s = 0.0
        self._interrupted = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._stopped = False

    @property
    def is_running(self) -> bool:
        return self._running is not None

    def start(self, rebalance: RunRebalance) -> None:
        """Run this rebalance next. The new rebalance replaces a rebalance that is due but has not been started."""
        self._due = rebalance
        self._interrupted.set()
        if self._computing is not None:
            asyncio.get_running_loop().call_at(self._began_at_s + VOID_AFTER_S, self._computing.cancel)
        if self._running is None and not self._stopped:
            self._running = asyncio.create_task(self._run_all())

    def stop(self) -> None:
        """Start no more rebalances, and cancel the rebalance that is being computed. The cancelled rebalance is due
        again when the group is read from the store.
        """
        self._stopped = True
        self._interrupted.set()
        if self._computing is not None:
            self._computing.cancel()

    async def _run_all(self) -> None:
        try:
            while self._due is not None and not self._stopped:
                rebalance, self._due = self._due, None
                await self._run(rebalance)
        finally:
            self._running = None

    async def _run(self, rebalance: RunRebalance) -> None:
        try:
            computed = await self._compute(rebalance)
        except PoolClosed:
            return
        except ClusterOutOfReach as error:
            self._cluster.failed(error)
            await self._wait(rebalance, self._retry_ms)
            return
        except WorkersUnavailable as error:
            self._telemetry.logger.warning("rebalance_waits", generation=rebalance.generation_id, error=str(error))
            await self._wait(rebalance, WORKERS_RETRY_MS)
            return
        # After an unexpected error, there is nothing to record. The group still needs a result, because its members
        # would otherwise wait for ever.
        except Exception as fault:
            self._telemetry.logger.error("rebalance_broken", generation=rebalance.generation_id, exc_info=fault)
            nothing = ComputedAssignments(error=f"{type(fault).__name__}: {fault}")
            failed = AssignmentComputed(rebalance.generation_id, nothing, kept_owned=rebalance.steering.keeps_owned)
            await self._store(rebalance, failed, None)
            return
        if computed is None:
            return
        if computed.event.topics:  # the rebalance has polled its cluster
            self._cluster.answered()
        await self._store(
            rebalance, computed.event, lambda response: computed.recording(response, self._telemetry.rebalancing_ms())
        )

    async def _compute(self, rebalance: RunRebalance) -> ComputedRebalance | None:
        """Computes a rebalance. Returns None if the rebalance has become void or the service stops. Raises the errors
        of the runner.
        """
        loop = asyncio.get_running_loop()
        with self._telemetry.metrics.assignment_latency.time():
            self._began_at_s = loop.time()
            computing = self._computing = loop.create_task(self._runner.run(rebalance))
            try:
                await asyncio.wait([computing])
            finally:
                self._computing = None
                computing.cancel()  # a cancellation has no effect on an asyncio task that has ended
        return None if computing.cancelled() else computing.result()

    async def _store(
        self, rebalance: RunRebalance, event: AssignmentComputed, recording_for: RecordingFor | None
    ) -> None:
        if self._stopped:
            return
        try:
            await self._hand_back(event, recording_for)
        except StoreError as error:
            # the group is read from the store again soon, and then requests this rebalance if it is still due
            self._telemetry.logger.error("rebalance_not_stored", generation=rebalance.generation_id, error=str(error))

    async def _wait(self, rebalance: RunRebalance, wait_ms: int) -> None:
        """Waits, and then makes the rebalance due again. The rebalance does not become due if another rebalance has
        become due, or if the group no longer waits for it.
        """
        self._interrupted.clear()
        if self._due is None and not self._stopped:
            with move_on_after(wait_ms / 1000):
                await self._interrupted.wait()
        if self._due is None and self._is_wanted(rebalance):
            self._due = rebalance
