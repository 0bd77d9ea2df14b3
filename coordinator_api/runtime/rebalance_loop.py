"""Runs the rebalances that a group asks for, one after the other, and hands each result back to the group.

Rules: a rebalance that becomes due while another one is computed makes that one void: it is given up, unless it is done
in a moment, and then the group itself discards its result. A rebalance whose cluster is out of reach, or for which no
process can be started, stays due and runs again after a while. One that fails in any other way is handed back as
failed, so that members do not wait for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

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
"""Gives the group the result of a rebalance, and what to store with it. Raises StoreError."""

VOID_AFTER_S = 0.2
"""A rebalance that has become void may go on for as long: ending its process costs more than a short one."""

WORKERS_RETRY_MS = 1_000
"""How long a rebalance waits when no process can be started for it: it lacks memory or processes."""

IsWanted = Callable[[RunRebalance], bool]
"""Whether the group still waits for this rebalance."""


class RebalanceLoop:
    """The rebalances of one group."""

    def __init__(
        self,
        runner: RebalanceRunner,
        cluster: ClusterStanding,
        telemetry: GroupTelemetry,
        retry_ms: int,
        hand_back: HandBack,
        is_wanted: IsWanted,
    ) -> None:
        """`retry_ms`: how long a rebalance waits for a cluster that is out of reach before it runs again."""
        self._runner = runner
        self._cluster = cluster
        self._telemetry = telemetry
        self._retry_ms = retry_ms
        self._hand_back = hand_back
        self._is_wanted = is_wanted
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
        """Run this rebalance next, in place of one that is due already."""
        self._due = rebalance
        self._interrupted.set()
        if self._computing is not None:
            asyncio.get_running_loop().call_at(self._began_at_s + VOID_AFTER_S, self._computing.cancel)
        if self._running is None and not self._stopped:
            self._running = asyncio.create_task(self._run_all())

    def stop(self) -> None:
        """Start no more rebalances; give up the one that is computed, at once. A restart finds it due again."""
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
        except Exception as fault:  # nothing of it can be recorded, but the members must not wait for ever
            self._telemetry.logger.error("rebalance_broken", generation=rebalance.generation_id, exc_info=fault)
            nothing = ComputedAssignments(error=f"{type(fault).__name__}: {fault}")
            failed = AssignmentComputed(rebalance.generation_id, nothing, kept_owned=rebalance.steering.keeps_owned)
            await self._store(rebalance, failed, None)
            return
        if computed is None:
            return
        if computed.event.topics:  # a cluster was polled
            self._cluster.answered()
        await self._store(
            rebalance, computed.event, lambda response: computed.recording(response, self._telemetry.rebalancing_ms())
        )

    async def _compute(self, rebalance: RunRebalance) -> ComputedRebalance | None:
        """None for one that has become void, and when the service stops. Raises whatever the runner raises."""
        loop = asyncio.get_running_loop()
        with self._telemetry.metrics.assignment_latency.time():
            self._began_at_s = loop.time()
            computing = self._computing = loop.create_task(self._runner.run(rebalance))
            try:
                await asyncio.wait([computing])
            finally:
                self._computing = None
                computing.cancel()  # no effect on one that is done
        return None if computing.cancelled() else computing.result()

    async def _store(
        self, rebalance: RunRebalance, event: AssignmentComputed, recording_for: RecordingFor | None
    ) -> None:
        if self._stopped:
            return
        try:
            await self._hand_back(event, recording_for)
        except StoreError as error:
            # the group is read from the store again soon, and then asks for this rebalance if it is still due
            self._telemetry.logger.error("rebalance_not_stored", generation=rebalance.generation_id, error=str(error))

    async def _wait(self, rebalance: RunRebalance, wait_ms: int) -> None:
        """Then the rebalance is due again, unless another one has become due or the group has moved on."""
        self._interrupted.clear()
        if self._due is None and not self._stopped:
            with move_on_after(wait_ms / 1000):
                await self._interrupted.wait()
        if self._due is None and self._is_wanted(rebalance):
            self._due = rebalance
