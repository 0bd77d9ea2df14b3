"""All groups of one service: opens them from the store, finds them by id, creates, deletes and closes them."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Self

import structlog

from assignor.errors import InputError
from assignor.types import ProcessId
from coordinator_api.clusters.clusters import Clusters
from coordinator_api.clusters.providers import ClusterProviders
from coordinator_api.errors import GroupNotFound, TooManyGroups, UnreadableGroup
from coordinator_api.group import events
from coordinator_api.group.events import Event
from coordinator_api.group.limits import GroupLimits
from coordinator_api.group.outcome import Response
from coordinator_api.group.replay import IllegalTransition
from coordinator_api.group.states import GroupState
from coordinator_api.groups.admission import Admission
from coordinator_api.groups.allowed_assignors import AllowedAssignors
from coordinator_api.groups.attentive_clock import AttentiveClock
from coordinator_api.groups.connections import GroupsOfConnections
from coordinator_api.groups.definitions import DocumentBounds
from coordinator_api.groups.group_environment import Backlog, GroupEnvironment
from coordinator_api.groups.group_runtime import GroupRuntime
from coordinator_api.groups.keyed_locks import KeyedLocks
from coordinator_api.groups.loop_monitor import LONG_STALL_MS, LoopMonitor
from coordinator_api.groups.overload import Overload
from coordinator_api.groups.readiness import StoreReadiness
from coordinator_api.groups.rebalance_runner import RebalanceRunner
from coordinator_api.groups.recordings import Recordings
from coordinator_api.groups.reported_rebalances import ReportedRebalance
from coordinator_api.groups.service_workers import ServiceWorkers
from coordinator_api.metrics import Metrics
from coordinator_api.settings import Settings
from coordinator_api.store.errors import StoreError
from coordinator_api.store.opening import open_store
from coordinator_api.store.repository import GroupLog, Recording, Repository
from coordinator_api.telemetry import GroupTelemetry

DESCRIPTIONS_AT_ONE_TIME = 2

_UNSAFE_IN_AN_ID = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_NAME_IN_AN_ID = 249
"""A client id may be as long as a member id may be, which has a UUID behind it."""


class Coordinator:
    """Call `open` to make one. It belongs to one event loop."""

    def __init__(self, settings: Settings, repository: Repository, resources: AsyncExitStack) -> None:
        self.settings = settings
        self.repository = repository
        self.allowed_assignors = AllowedAssignors(settings.task_assignor_classes)
        self.clusters = Clusters(
            ClusterProviders(settings.cluster_bootstrap_servers), settings.cluster_request_timeout_ms
        )
        resources.callback(self.clusters.close)
        clock, backlog = AttentiveClock(), Backlog()
        self.metrics = Metrics(
            self._census, lambda: self.long_polls.count, lambda: backlog.events, lambda: clock.behind_ms
        )
        self.connections = GroupsOfConnections()
        self._monitor = LoopMonitor(clock, self._late)
        self.overload = Overload(
            lambda: self._monitor.lag_ms,
            lambda: backlog.events,
            lambda kind: self.metrics.shed_requests.labels(kind).inc(),
        )
        self.groups: dict[str, GroupRuntime] = {}
        self.unreadable: dict[str, str] = {}
        """Groups whose log could not be read when the service started, each with the reason."""
        self.store = StoreReadiness(lambda: self.repository.check())
        self.long_polls = Admission(settings.longpoll_max_count, "longpoll.max.count")
        self.computations = Admission(settings.computation_max_count, "computation.max.count")
        self.descriptions = asyncio.Semaphore(DESCRIPTIONS_AT_ONE_TIME)
        self.recordings = Recordings(repository)
        self.stopping = False
        self.document_bounds = DocumentBounds(
            settings.group_max_partitions,
            settings.group_max_subtopologies,
            self.allowed_assignors.class_paths,
            settings.cluster_bootstrap_servers,
        )
        self._resources = resources
        self._one_at_a_time = KeyedLocks()
        self.workers = ServiceWorkers(settings.computation_max_count)
        resources.push_async_callback(self.workers.close)
        self._environment = GroupEnvironment(
            repository=repository,
            clock=clock,
            limits=GroupLimits(
                initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
                min_session_timeout_ms=settings.group_min_session_timeout_ms,
                max_session_timeout_ms=settings.group_max_session_timeout_ms,
                max_size=settings.group_max_size,
                disconnect_grace_ms=settings.group_disconnect_grace_ms,
            ),
            compaction_bytes=settings.records_compaction_bytes,
            metadata_max_age_ms=settings.cluster_metadata_max_age_ms,
            backlog=backlog,
            connections=self.connections,
        )

    @classmethod
    async def open(cls, settings: Settings) -> Self:
        """Take the store, bring its schema up to date, replay every group. Raises StoreError, SettingsError.

        A group whose log cannot be read is left out (`unreadable`), and keeps no other from being led.
        """
        async with AsyncExitStack() as resources:
            store = await resources.enter_async_context(open_store(settings))
            coordinator = cls(settings, store.repository, resources)
            coordinator.workers.warm_up()
            # one after the other: the logs of all groups together may be large
            for group_id in await store.repository.group_ids():
                await coordinator._open_group(group_id)
            structlog.get_logger("coordinator_api").info(
                "store_opened",
                schema=store.schema,
                schema_before=store.schema_before,
                groups=len(coordinator.groups),
                unreadable=len(coordinator.unreadable),
            )
            coordinator._monitor.start()
            resources.callback(coordinator._monitor.stop)
            coordinator._resources = resources.pop_all()
            return coordinator

    def group(self, group_id: str) -> GroupRuntime:
        """Raises GroupNotFound, UnreadableGroup."""
        self._check_readable(group_id)
        runtime = self.groups.get(group_id)
        if runtime is None or not runtime.is_declared:
            raise GroupNotFound(f"there is no group {group_id}: declare it by PUT")
        return runtime

    async def declare(self, group_id: str, declaration: events.DeclareGroup) -> Response:
        """Create the group or give it another definition: `Declared` or `Rejected`.

        Raises TooManyGroups, UnreadableGroup, StoreError.
        """
        return await self._handle_creating(group_id, declaration)

    async def report(self, group_id: str, reported: ReportedRebalance) -> Response:
        """Take in a rebalance that was led elsewhere: `RebalanceReported` or `Rejected`. Creates its group if need be.

        Raises TooManyGroups, UnreadableGroup, StoreError.
        """
        return await self._handle_creating(group_id, reported.event, reported.recording)

    async def _handle_creating(self, group_id: str, event: Event, recording: Recording | None = None) -> Response:
        """Hand the event to the group, and create the group if need be."""
        self._check_readable(group_id)
        async with self._one_at_a_time.lock(group_id):
            runtime = self.groups.get(group_id)
            if runtime is None:
                if len(self.groups.keys() | self._one_at_a_time.held()) > self.settings.group_max_count:
                    raise TooManyGroups(f"this service may have {len(self.groups)} groups (group.max.count)")
                # the store may have the group: a PUT that failed may have been written after all
                runtime = self._runtime(await self.repository.load_group(group_id))
            try:
                response = await runtime.handle(event, recording)
            except StoreError:
                if group_id not in self.groups:
                    await runtime.close()
                raise
            if group_id not in self.groups and not runtime.is_declared:
                await runtime.close()
            else:
                self.groups[group_id] = runtime
            return response

    def declared(self) -> list[GroupRuntime]:
        """Every group, in order of their ids."""
        return [runtime for _, runtime in sorted(self.groups.items()) if runtime.is_declared]

    async def delete(self, group_id: str) -> Response:
        async with self._one_at_a_time.lock(group_id):
            runtime = self.group(group_id)
            response = await runtime.handle(events.DeleteGroup())
            if runtime.image.state is GroupState.DEAD:
                del self.groups[group_id]
                await runtime.close()
            return response

    def connection_lost(self, connection_id: int) -> None:
        """A connection broke, and it was not the service that closed it. Its groups are told."""
        if not self.stopping:
            self.connections.lost(connection_id)

    def connection_closed(self, connection_id: int) -> None:
        """The service closed a connection: nothing more is kept of it, and nothing follows for its members."""
        self.connections.closed(connection_id)

    def new_member_id(self, client_id: str | None, group_instance_id: str | None) -> str:
        """Kafka's form, a name and a UUID, in characters that need no escape in an address."""
        name = (group_instance_id or client_id or "member")[:_LONGEST_NAME_IN_AN_ID]
        return f"{_UNSAFE_IN_AN_ID.sub('_', name)}-{uuid.uuid4()}"

    def begin_stop(self) -> None:
        """Answer held requests now, and end computations, so that a graceful stop does not wait for them."""
        self.stopping = True
        self.workers.end_computations()
        for runtime in self.groups.values():
            runtime.release()

    async def close(self) -> None:
        """Stop timers and rebalances, let events in progress come to their end, give the store back."""
        self.begin_stop()
        await asyncio.gather(*(runtime.close() for runtime in self.groups.values()))
        await self._resources.aclose()

    def _late(self, late_ms: float) -> None:
        self.metrics.loop_lag.observe(late_ms / 1000)
        if late_ms >= LONG_STALL_MS:
            structlog.get_logger("coordinator_api").warning("service_stood_still", late_ms=round(late_ms))

    async def _open_group(self, group_id: str) -> None:
        try:
            runtime = self._runtime(await self.repository.load_group(group_id))
        except (StoreError, InputError, IllegalTransition) as error:
            in_public = error.in_public if isinstance(error, StoreError) else f"it cannot be replayed: {error}"
            self.unreadable[group_id] = in_public
            structlog.get_logger("coordinator_api").error("group_unreadable", group=group_id, error=str(error))
            return
        self.groups[group_id] = runtime
        await runtime.handle(events.Recovered())

    def _check_readable(self, group_id: str) -> None:
        if group_id in self.unreadable:
            raise UnreadableGroup(
                f"the log of group {group_id} could not be read when the service started, so the group is not led: "
                f"{self.unreadable[group_id]}. Restore it from a backup, or open the database with the release that "
                "wrote it"
            )

    def _runtime(self, log: GroupLog) -> GroupRuntime:
        runner = RebalanceRunner(
            log.group_id,
            self.allowed_assignors,
            _random_process_id,
            self.workers.rebalances,
            self.document_bounds.max_partitions,
            self.clusters,
        )
        return GroupRuntime(log, runner, GroupTelemetry(log.group_id, self.metrics), self._environment)

    def _census(self) -> tuple[Mapping[str, int], int]:
        images = [runtime.image for runtime in self.declared()]
        by_state = Counter(str(image.state) for image in images)
        return {str(state): by_state[str(state)] for state in GroupState}, sum(len(image.members) for image in images)


def _random_process_id() -> ProcessId:
    return ProcessId.from_bytes(uuid.uuid4().bytes)
