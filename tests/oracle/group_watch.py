"""What a group did, generation by generation, as the broker wrote it down in `__consumer_offsets`.

Reads the records without the product's recorder, so that what it says does not rest on that.
A generation that is written a second time (a static member came back) replaces what it was, and counts no round.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as ClientPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupCoordinatorNotAvailableError

from assignor.errors import DecodeError
from assignor.protocol import group_metadata
from assignor.protocol.assignment_info import decode_assignment_info
from assignor.protocol.consumer_protocol import decode_assignment, decode_subscription
from assignor.protocol.subscription_info import decode_subscription_info
from assignor.types import JAVA_LONG_MAX, TopicPartition

OFFSETS_TOPIC = "__consumer_offsets"
LEADER_TAG = "assignor-leader"
"""Client tag of a member that only leads and is never given a task."""

_STREAMS_PROTOCOL = "stream"
_LONGEST_START_S = 60.0
_POLL_MS = 50


@dataclass(frozen=True, slots=True)
class WatchedMember:
    """`owned`: when it joined. `next_rebalance_ms`: when it was told to rejoin by itself, 0 at once; None: never."""

    member_id: str
    client_id: str
    process_id: str
    leads_only: bool
    owned: frozenset[TopicPartition]
    assigned: frozenset[TopicPartition]
    active: tuple[str, ...]
    standby: tuple[str, ...]
    next_rebalance_ms: int | None

    @property
    def loses_partitions(self) -> bool:
        """It has to give something up, and rejoins when it has."""
        return bool(self.owned - self.assigned)


@dataclass(frozen=True, slots=True)
class Generation:
    """`leader`: its member id."""

    group: str
    id: int
    leader: str | None
    members: tuple[WatchedMember, ...]

    @property
    def workers(self) -> tuple[WatchedMember, ...]:
        """The members that may have tasks."""
        return tuple(member for member in self.members if not member.leads_only)

    @property
    def is_led_from_outside(self) -> bool:
        """Whether a member leads that gets no tasks."""
        return any(member.leads_only for member in self.members if member.member_id == self.leader)


class GroupWatch:
    """Follows all Kafka Streams groups of a broker in a thread of its own, from their first record on."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._generations: dict[str, list[Generation]] = {}
        self._unreadable: dict[str, DecodeError] = {}
        """Groups that hold bytes of no Kafka Streams member. Other tests make such on the same broker."""
        self._failure: BaseException | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._follows = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> GroupWatch:
        self._thread.start()
        assert self._follows.wait(_LONGEST_START_S), f"{OFFSETS_TOPIC} cannot be followed"
        self._check(None)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(_LONGEST_START_S)

    def generations(self, group: str) -> tuple[Generation, ...]:
        """All so far that had an assignment, ascending. Raises AssertionError when one of them cannot be read."""
        self._check(group)
        with self._lock:
            return tuple(self._generations.get(group, ()))

    def latest(self, group: str) -> Generation | None:
        generations = self.generations(group)
        return generations[-1] if generations else None

    def _check(self, group: str | None) -> None:
        failure = self._failure or self._unreadable.get(group or "")
        if failure is not None:
            raise AssertionError(f"the watch of the groups failed: {failure}") from failure

    def _run(self) -> None:
        try:
            asyncio.run(self._follow())
        except BaseException as failure:
            self._failure = failure
        finally:
            self._follows.set()

    async def _follow(self) -> None:
        await create_offsets_topic(self._bootstrap_servers)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap_servers,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            exclude_internal_topics=False,
        )
        await consumer.start()
        try:
            partitions = await _partitions(self._bootstrap_servers)
            consumer.assign(partitions)
            await consumer.seek_to_beginning(*partitions)
            self._follows.set()
            while not self._stop.is_set():
                for records in (await consumer.getmany(timeout_ms=_POLL_MS)).values():
                    for record in records:
                        self._take(record.key, record.value)
        finally:
            await consumer.stop()

    def _take(self, key: bytes | None, value: bytes | None) -> None:
        named = None if key is None else group_metadata.decode_group_key(key)
        if not isinstance(named, group_metadata.GroupMetadataKey) or value is None:
            return
        group = named.group
        try:
            generation = _generation(group, group_metadata.decode_group_value(value))
        except DecodeError as failure:
            self._unreadable[group] = failure
            return
        if generation is None:
            return
        with self._lock:
            known = self._generations.setdefault(group, [])
            if known and known[-1].id == generation.id:
                known[-1] = generation
            elif generation.id > 0:
                known.append(generation)


async def create_offsets_topic(bootstrap_servers: str) -> None:
    """Brokers create it when they are first asked for a group's coordinator."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        with contextlib.suppress(GroupCoordinatorNotAvailableError):
            await admin.find_coordinator("somebody")
    finally:
        await admin.close()


async def _partitions(bootstrap_servers: str) -> Sequence[ClientPartition]:
    """By an admin client: a consumer that unsubscribes may stop fetching for good."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        deadline = time.monotonic() + _LONGEST_START_S
        while time.monotonic() < deadline:
            (described,) = await admin.describe_topics([OFFSETS_TOPIC])
            if described["partitions"]:
                return [ClientPartition(OFFSETS_TOPIC, each["partition"]) for each in described["partitions"]]
            await asyncio.sleep(0.05)
    finally:
        await admin.close()
    raise AssertionError(f"there is no {OFFSETS_TOPIC}")


def _generation(group: str, value: group_metadata.GroupMetadataValue) -> Generation | None:
    """None for a group that is no Kafka Streams application."""
    if value.protocol not in (_STREAMS_PROTOCOL, None):
        return None
    return Generation(group, value.generation, value.leader, tuple(map(_member, value.members)))


def _member(member: group_metadata.MemberMetadata) -> WatchedMember:
    subscription = decode_subscription(member.subscription)
    assignment = decode_assignment(member.assignment) if member.assignment else None
    about = decode_subscription_info(subscription.user_data or b"")
    tasks = decode_assignment_info(assignment.user_data) if assignment and assignment.user_data else None
    return WatchedMember(
        member_id=member.member_id,
        client_id=member.client_id,
        process_id=str(about.process_id),
        leads_only=LEADER_TAG in about.client_tags or member.client_id.endswith(f"-{LEADER_TAG}"),
        owned=frozenset(subscription.owned_partitions),
        assigned=frozenset(assignment.partitions if assignment else ()),
        active=tuple(sorted({str(task) for task in tasks.active_tasks})) if tasks else (),  # once for each partition
        standby=tuple(sorted(map(str, tasks.standby_tasks))) if tasks else (),
        next_rebalance_ms=None
        if tasks is None or tasks.next_rebalance_ms == JAVA_LONG_MAX
        else tasks.next_rebalance_ms,
    )
