"""Opens, creates, closes and deletes the groups of one service, and finds groups by id."""

import asyncio
import re
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import InitVar, dataclass
from importlib.metadata import version
from weakref import WeakValueDictionary

import structlog

from assignor.configs.kafka_versions import VERSION_OF_NEW_GROUPS, KafkaVersion
from coordinator_api.clock import LoopMonitor
from coordinator_api.errors import GroupNotFound, LogIsIntact, TooManyGroups, UnreadableGroup
from coordinator_api.group import events
from coordinator_api.group.events import Event
from coordinator_api.group.group import Group
from coordinator_api.group.outcome import Accepted, Response
from coordinator_api.group.states import GroupState
from coordinator_api.lease.background_tasks import BackgroundTasks
from coordinator_api.lease.coordinator_lease import CoordinatorLease
from coordinator_api.lease.owned_groups import GroupLease, not_here
from coordinator_api.metrics import ServiceMeasures
from coordinator_api.runtime.admission import Admission, Overload
from coordinator_api.runtime.definitions import DocumentBounds
from coordinator_api.runtime.durable_group import UNREADABLE, GroupEnvironment, replayed_log
from coordinator_api.runtime.group_runtime import GroupRuntime
from coordinator_api.runtime.rebalance_runner import RebalanceResources
from coordinator_api.runtime.store_access import Recordings, StoreReadiness
from coordinator_api.settings import Settings
from coordinator_api.store.opening import OpenStore
from coordinator_api.store.repository import GroupLog, Recording
from coordinator_api.store.store_errors import ConcurrentWriter, DamagedLog, StoreBusy, StoreError
from coordinator_api.store.stored_logs import GroupRepair, StoredLog, nothing_lost, planned_repair
from coordinator_api.workers.worker_pool import ServiceWorkers

DESCRIPTIONS_AT_ONE_TIME = 2

COUNT_OTHERS_EVERY_S = 1.0
"""The groups of other coordinators are counted for quotas at this interval, in seconds."""

SHARE_OF_A_STOP = 0.75
"""When a coordinator stops, it hands its groups over during this fraction of the stop's time limit. After this time,
the coordinator closes the remaining groups.
"""

_UNSAFE_IN_AN_ID = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_NAME_IN_AN_ID = 249
"""A member id consists of a name and a UUID. The name is a client id that is cut to this number of characters. Without
the cut, a long client id would make the member id too long.
"""


@dataclass(eq=False, repr=False)
class Coordinator:
    """The groups of one service. Call `assembly.open_coordinator` to get a Coordinator. Use a Coordinator on only one
    event loop.

    `unreadable`: for each group whose log cannot be read, the reason. This coordinator does not lead unreadable groups.
    `store`: checks whether the store can be used. `closed`: True if `close` has ended. A closed coordinator does not
    use the store any more.

    `url`: the address of this coordinator, which other coordinators of the database use. `resources`: the resources
    that `close` closes last. The constructor has eight parameters, because each parameter is a part that `assembly`
    makes from the settings.
    """

    settings: Settings
    opened: InitVar[OpenStore]
    _environment: GroupEnvironment
    _rebalances: RebalanceResources
    workers: ServiceWorkers
    _monitor: LoopMonitor
    url: InitVar[str]
    _resources: AsyncExitStack

    def __post_init__(self, opened: OpenStore, url: str) -> None:
        self.repository = opened.repository
        self.tokens = opened.repository.tokens
        self.metrics = self._environment.metrics
        self.connections = self._environment.connections
        self.quotas = self._environment.quotas
        self.watching = self._environment.watching
        self.clusters = self._rebalances.clusters
        self.allowed_assignors = self._rebalances.allowed
        self.document_bounds = DocumentBounds(
            self.settings.group_max_partitions,
            self.settings.group_max_subtopologies,
            self._rebalances.allowed.class_paths,
            self.settings.cluster_bootstrap_servers,
        )
        self.overload = Overload(self._monitor, self._environment.backlog, self.metrics.shed_requests)
        self.long_polls = Admission(self.settings.longpoll_max_count, "longpoll.max.count")
        self.computations = Admission(self.settings.computation_max_count, "computation.max.count")
        self.descriptions = asyncio.Semaphore(DESCRIPTIONS_AT_ONE_TIME)
        self.store = self._environment.readiness or StoreReadiness(opened.repository, self._environment.clock.now_ms)
        self.recordings = Recordings(opened.repository)
        self.groups: dict[str, GroupRuntime] = {}
        self.unreadable: dict[str, str] = {}
        self.lease = CoordinatorLease(opened.lease_store, url, version("assignor"), self, self.metrics)
        self.stopping = False
        self.closed = False
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tasks = BackgroundTasks()
        self._giving_away: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open the groups that this coordinator owns. Raises StoreError."""
        self.workers.warm_up()
        self._resources.push_async_callback(self.lease.leave)
        await self.lease.start()
        if self.lease.is_shared:
            counting = self._tasks.start(self._count_others())
            self._resources.callback(counting.cancel)
        if self.unreadable:
            stored_bytes = await self.repository.stored_bytes()
            for group_id in self.unreadable:  # the quotas also count the bytes of unreadable groups
                self.quotas.note(group_id, 0, stored_bytes.get(group_id, 0))
        self._monitor.start()
        self._resources.callback(self._monitor.stop)

    def check_may_answer(self) -> None:
        """Raises LeaseEnded if this coordinator must not answer from its memory now."""
        if self.lease.is_shared:
            self.lease.check()

    def group(self, group_id: str) -> GroupRuntime:
        """Returns an open group. Raises GroupNotFound, UnreadableGroup, LeaseEnded. Raises NotOwner if the group exists
        but is not open in this coordinator.
        """
        self.check_may_answer()
        self._check_readable(group_id)
        runtime = self.groups.get(group_id)
        if runtime is None and not self.lease.is_unknown(group_id):
            # do not raise GroupNotFound, because a member ends when it gets the answer "no such group"
            raise not_here(group_id)
        if runtime is None or not runtime.is_declared:
            raise _no_such_group(group_id)
        return runtime

    async def kafka_version(self, group_id: str) -> KafkaVersion:
        """Returns the Kafka version of a group that is open here; otherwise the version of new groups."""
        runtime = self.groups.get(group_id)
        if runtime is None or not runtime.is_declared:
            return VERSION_OF_NEW_GROUPS
        return (await runtime.definition(runtime.image)).snapshot.configs.kafka_version

    def _lock(self, group_id: str) -> asyncio.Lock:
        """Returns the lock for creating, changing and deleting the group. If no asyncio task holds a lock or waits for
        it, the lock is dropped.
        """
        return self._locks.setdefault(group_id, asyncio.Lock())

    async def handle_or_create(
        self, group_id: str, event: Event, recording: Recording | None = None, tenant: str = ""
    ) -> Response:
        """Pass an event to the group: a definition, or the report of a rebalance by an outside leader. If the group
        does not exist, it is created. `recording`: the recording to store with a reported rebalance. `tenant`: the
        tenant whose quotas apply.

        Raises TooManyGroups, UnreadableGroup, StoreError. Raises NotOwner if another coordinator has created the group.
        """
        self._check_readable(group_id)
        async with self._lock(group_id):
            with self.lease.creating(group_id):
                return await self._handle_alone(group_id, event, recording, tenant)

    async def _handle_alone(self, group_id: str, event: Event, recording: Recording | None, tenant: str) -> Response:
        known = self.groups.get(group_id)
        if known is not None:
            return await known.handle(event, recording, tenant)
        if not self.lease.is_unknown(group_id):
            raise not_here(group_id)
        if len(self.groups.keys() | self.lease.known_ids() | set(self._locks)) > self.settings.group_max_count:
            # the message does not show the number of groups, which includes groups of other callers
            raise TooManyGroups("this service has as many groups as it may (group.max.count)")
        is_counted_now = self.quotas.count_group(group_id, tenant)
        try:
            # the group may be in the store, because an earlier PUT may have failed after its write
            log = await self.repository.load_group(group_id)
            if log.sequence and self.lease.is_shared:
                raise not_here(group_id)  # another coordinator owns the group, or a failed PUT was written
        except StoreError:
            if is_counted_now:
                self.quotas.give_back(group_id)
            raise
        runtime = self._runtime(log, log.epoch)
        try:
            response = await runtime.handle(event, recording, tenant)
        except StoreError as error:
            await runtime.close()
            # after any other error the group may be in the store, so the quotas still count it
            if isinstance(error, StoreBusy) and is_counted_now:
                self.quotas.give_back(group_id)
            if isinstance(error, ConcurrentWriter) and self.lease.is_shared:
                raise not_here(group_id) from None  # another coordinator created the group a moment earlier
            raise
        if runtime.is_declared:
            self.groups[group_id] = runtime
            self.lease.created(group_id, runtime.lease.epoch)
        else:
            await runtime.close()
            self.quotas.give_back(group_id)
        return response

    def declared(self) -> list[GroupRuntime]:
        """Returns all declared groups, in the order of their ids."""
        return [runtime for _, runtime in sorted(self.groups.items()) if runtime.is_declared]

    async def stored_log(self, group_id: str) -> tuple[StoredLog, str | None]:
        """Returns the stored log of the group, and the reason why the log cannot be read. The reason is None if the log
        can be read. Raises GroupNotFound.
        """
        stored = await self.repository.stored_log(group_id)
        if stored.is_empty:
            raise _no_such_group(group_id)
        return stored, stored.problem or self.unreadable.get(group_id)

    async def repair(self, group_id: str, *, execute: bool) -> GroupRepair:
        """Plans a repair of the group's log. Returns the records that the repair keeps and drops. `execute`: True to
        carry out the repair and open the group again.

        If this coordinator leads the group, no record is lost, because the new log is written from the state in memory.
        Raises GroupNotFound, LogIsIntact, LogBeyondRepair, StoreError.
        """
        async with self._lock(group_id):
            stored, problem = await self.stored_log(group_id)
            runtime = self.groups.get(group_id)
            if problem is None:
                raise LogIsIntact(f"the log of group {group_id} can be read: there is nothing to repair")
            if runtime is not None:
                plan = nothing_lost(stored, runtime.image)
                if execute:
                    await runtime.renew()
                    left = (await self.repository.stored_log(group_id)).problem
                    if left is not None:
                        raise StoreError(f"the log of group {group_id} could not be written anew: {left}")
                return GroupRepair(group_id, problem, execute, plan)
            is_whole = True  # an operator may have repaired the group's log by other means since the damage was found
            try:
                whole = await replayed_log(await self.repository.load_group(group_id), self._environment)
                plan = nothing_lost(stored, whole.image)
            except UNREADABLE:
                is_whole = False
                limits, now_ms = self._environment.limits, self._environment.clock.now_ms()
                plan = await asyncio.to_thread(planned_repair, stored, limits, now_ms)
            if execute:
                if not is_whole:
                    await self.repository.renew(group_id, stored.sequence, plan.lines, epoch=self.lease.epoch(group_id))
                # The group remains in `unreadable` until the group is open. If the group were removed earlier, its
                # members would get the answer "no such group", and end.
                await self._open_group(group_id, self.lease.epoch(group_id))
                self._check_readable(group_id)
                structlog.get_logger("coordinator_api").warning(
                    "group_repaired",
                    group=group_id,
                    kept_records=plan.kept_records,
                    dropped_records=plan.dropped_records,
                    dropped_members=len(plan.dropped_members),
                    generation=plan.generation_id,
                )
            return GroupRepair(group_id, problem, execute, plan)

    async def delete(self, group_id: str, *, force: bool = False) -> Response:
        """Delete the group. `force`: True to delete the group even if its log cannot be read. If the group's log cannot
        be read, its members are unknown.

        Raises GroupNotFound, UnreadableGroup, StoreError.
        """
        async with self._lock(group_id):
            if force and group_id in self.unreadable:
                stored = await self.repository.stored_log(group_id)
                if not stored.is_empty:
                    await self.repository.delete(group_id, stored.sequence, epoch=self.lease.epoch(group_id))
                self.unreadable.pop(group_id, None)
                self.quotas.give_back(group_id)
                self.lease.deleted(group_id)
                structlog.get_logger("coordinator_api").warning("unreadable_group_deleted", group=group_id)
                return Accepted()
            runtime = self.group(group_id)
            response = await runtime.handle(events.DeleteGroup())
            if runtime.image.state is GroupState.DEAD:
                self.groups.pop(group_id, None)
                self.lease.deleted(group_id)
                await runtime.close()
                self.quotas.give_back(group_id)
            return response

    # --- the methods of `GroupHost`, for the lease

    async def open_owned(self, group_id: str, epoch: int) -> bool:
        """Open a group that this coordinator owns in this epoch. Returns whether the group exists. Raises
        StoreError.
        """
        async with self._lock(group_id):
            runtime = self.groups.get(group_id)
            if runtime is not None and runtime.lease.epoch == epoch:
                return True
            self.lose(group_id)
            return await self._open_group(group_id, epoch)

    def is_open(self, group_id: str) -> bool:
        return group_id in self.groups or group_id in self.unreadable

    async def close_owned(self, group_id: str) -> Callable[[], None] | None:
        """Wait until the group has finished its commits, then end the lease of the group. Returns a function that
        answers the group's held requests.
        """
        self.unreadable.pop(group_id, None)
        runtime = self.groups.pop(group_id, None)
        if runtime is None:
            return None
        await runtime.finish()
        runtime.lease.end()
        self._left(group_id)
        return runtime.release

    def lose(self, group_id: str) -> None:
        """Drop a group that another coordinator owns now. This coordinator answers the group's held requests with
        NotOwner.
        """
        self.unreadable.pop(group_id, None)
        runtime = self.groups.pop(group_id, None)
        if runtime is not None:
            runtime.lease.end()
            self._left(group_id)
            self._tasks.start(runtime.close())

    def at_rest(self) -> list[str]:
        return [group_id for group_id, runtime in self.groups.items() if runtime.is_at_rest]

    def read_again(self) -> None:
        for runtime in self.groups.values():
            runtime.reload_before_next_event()

    def answer_now(self) -> None:
        for runtime in self.groups.values():
            runtime.answer_now()

    def _left(self, group_id: str) -> None:
        self.connections.forget(group_id)
        self.quotas.went_elsewhere(group_id)
        self.watching.changed(group_id)

    def _lost(self, group_id: str) -> None:
        """Drop the group. The store has refused a write of this coordinator, because another coordinator owns the
        group.
        """
        self.lose(group_id)
        self.lease.lost(group_id)

    def connection_lost(self, connection_id: int) -> None:
        """Notify the groups that have members on this connection that the connection is broken. Call `connection_lost`
        only if the service did not close the connection itself.
        """
        if not self.stopping:
            self.connections.lost(connection_id)

    def new_member_id(self, client_id: str | None, group_instance_id: str | None) -> str:
        """Returns a new member id that consists of a name and a UUID, as in Kafka. The characters of the id do not have
        to be escaped in a URL.
        """
        name = (group_instance_id or client_id or "member")[:_LONGEST_NAME_IN_AN_ID]
        return f"{_UNSAFE_IN_AN_ID.sub('_', name)}-{uuid.uuid4()}"

    def begin_stop(self) -> None:
        """Answer held requests and end computations, because a graceful stop would wait for them.

        If there are other coordinators, the groups are first handed over to them. The answers to held requests then
        name the new owner.
        """
        if self.stopping:
            return
        self.stopping = True
        # a stop does not wait for computations, because a caller can repeat its call at another coordinator
        self.workers.computations.begin_close()
        self.watching.release()
        self._giving_away = self._tasks.start(self._give_away())

    async def _give_away(self) -> None:
        try:
            await self.lease.give_away(SHARE_OF_A_STOP * self.settings.shutdown_timeout_ms / 1000)
        finally:
            for runtime in self.groups.values():
                runtime.release()

    async def close(self) -> None:
        """Stop timers and rebalances, wait for the end of events in progress, and release the store."""
        self.begin_stop()
        if self._giving_away is not None:
            await asyncio.wait((self._giving_away,))
        await asyncio.gather(*(runtime.close() for runtime in self.groups.values()))
        self.store.close()
        await self._resources.aclose()
        self.closed = True

    async def _count_others(self) -> None:
        """Periodically count, for the quotas, the members and stored bytes of the groups of other coordinators."""
        while True:
            try:
                stored_bytes = await self.repository.stored_bytes()
            except StoreError:
                stored_bytes = {}
            self.quotas.count_elsewhere(
                {each.group_id: (each.members, stored_bytes.get(each.group_id)) for each in self.lease.elsewhere()},
                self.groups.keys() | self.unreadable.keys(),
            )
            await asyncio.sleep(COUNT_OTHERS_EVERY_S)

    async def _open_group(self, group_id: str, epoch: int) -> bool:
        """Open the group. Returns whether the group exists. Raises NotOwner. Raises StoreError if the store cannot be
        read at present.
        """
        self.quotas.count_group(group_id)
        is_shared = self.lease.is_shared
        try:
            log = await self.repository.load_group(group_id)
            if is_shared and not log.sequence:
                self.quotas.give_back(group_id)
                return False
            if is_shared and log.epoch != epoch:
                raise not_here(group_id)
            runtime = self._runtime(log, epoch, await replayed_log(log, self._environment))
        except (StoreError, *UNREADABLE) as error:
            if is_shared and isinstance(error, StoreError) and not isinstance(error, DamagedLog):
                raise  # `CoordinatorLease` tries to open the group again after its next poll.
            self._set_aside(group_id, error)
            return True
        self.groups[group_id] = runtime
        self.unreadable.pop(group_id, None)
        # After an error, another coordinator owns the group, or the group is read again before its next event.
        with suppress(StoreError):
            await runtime.handle(events.Recovered())
        return True

    def _check_readable(self, group_id: str) -> None:
        if group_id in self.unreadable:
            raise UnreadableGroup(
                f"the log of group {group_id} cannot be read, so the group is not led: {self.unreadable[group_id]}. "
                f"`assignor groups export {group_id}` saves the log, and `assignor groups repair {group_id}` says what "
                "of it can be kept"
            )

    def _set_aside(self, group_id: str, error: Exception) -> None:
        """Stop leading a group whose log cannot be read."""
        in_public = error.in_public if isinstance(error, StoreError) else f"it cannot be replayed: {error}"
        self.unreadable[group_id] = in_public
        self.watching.changed(group_id)
        structlog.get_logger("coordinator_api").error("group_unreadable", group=group_id, error=str(error))
        runtime = self.groups.pop(group_id, None)
        if runtime is not None:
            # not awaited here, because the group is still handling the event that called this method
            self._tasks.start(runtime.close())

    def _runtime(self, log: GroupLog, epoch: int, replayed: Group | None = None) -> GroupRuntime:
        lease = GroupLease(log.group_id, epoch, self.lease.check if self.lease.is_shared else None, self._lost)
        return GroupRuntime(log, self._environment, self._rebalances, lease, replayed, self._set_aside)

    def measures(self) -> ServiceMeasures:
        """Returns the values of the service for `/metrics`."""
        runtimes = self.declared()
        by_state = Counter(runtime.image.state for runtime in runtimes)
        return ServiceMeasures(
            groups=[runtime.measures() for runtime in runtimes],
            groups_by_state={str(state): by_state[state] for state in GroupState},
            long_polls=self.long_polls.count,
            event_backlog=self._environment.backlog.events,
            clock_behind_s=self._monitor.clock.behind_ms / 1000,
            unreadable_groups=len(self.unreadable),
            owned_groups=len(self.groups) + len(self.unreadable),
        )


def _no_such_group(group_id: str) -> GroupNotFound:
    return GroupNotFound(
        f"there is no group {group_id}: `assignor workers run` declares it, or PUT /v1/groups/{group_id}"
    )
