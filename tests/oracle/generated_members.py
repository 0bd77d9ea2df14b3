"""Processes and their members, drawn by chance: who they are, what they own and restored, and the bytes they send.

Ids are chosen to tell Java's order from any other: signed halves, text beyond ASCII, and, for a hostile group, names
that all fall into one bucket of a hash map. Members speak every version of the protocol, unknown later ones included.
"""

import base64
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

from assignor.protocol.consumer_protocol import Subscription, encode_subscription
from assignor.protocol.subscription_info import SubscriptionInfo, encode_subscription_info
from assignor.protocol.versions import LATEST_SUPPORTED_VERSION
from assignor.types import JAVA_LONG_MAX, ProcessId, TaskId, TopicPartition

THREADS = (1, 1, 1, 1, 2, 2, 3, 4, 8)
_EDGES = (0, 1, 2, 2**63, 2**63 - 1, 2**64 - 1, 0xFFFFFFFF, 0x7FFFFFFF00000000)
_ODD_END_POINTS = (
    "[::1]:8",
    "http://a.b:90",
    "日本:80",
    "AaAa:1",
    "BBBB:1",
    "AaAa:32",
    " ",
    "h:0",
    "a_b:70000",
    "x:2147483647",
    "PLAINTEXT://h-1.x%y:12",
)
_STRANGE_NAMES = ("é", "日本", "😀", "ＡＢ", "\ue000x", "z", "Z", "ß", "AaAa", "AaBB", "BBAa", "BBBB", "m", "C")
_FIRST_WITH_LATEST_VERSION, _FIRST_WITH_NAMED_TOPOLOGY = 3, 10


@dataclass(slots=True)
class Thread:
    """One member. `version` above 11: its user data is of a Kafka to come. `generation`: -1 when it does not say."""

    member_id: str
    instance_id: str | None = None
    version: int = LATEST_SUPPORTED_VERSION
    latest_version: int = LATEST_SUPPORTED_VERSION
    consumer_version: int = 3
    generation: int = -1
    error_code: int = 0
    owned: list[TopicPartition] = field(default_factory=list)
    offset_sums: dict[TaskId, int] = field(default_factory=dict)


@dataclass(slots=True)
class Process:
    process_id: ProcessId
    end_point: str | None
    tags: dict[str, str]
    threads: list[Thread]
    rack: str | None = None


def generated_process_id(random: Random, hostile: bool) -> ProcessId:
    if hostile and random.random() < 0.7:
        high = random.getrandbits(64)
        folded = (high >> 32) ^ (high & 0xFFFFFFFF) ^ random.choice((5, 5, 5, 16 << 16))  # one of two hash codes
        return _process_id(high, folded)
    kind = random.random()
    if kind < 0.6:
        return _process_id(random.getrandbits(64), random.getrandbits(64))
    if kind < 0.8:
        return _process_id(random.choice(_EDGES), random.choice(_EDGES))
    return _process_id(random.randrange(1, 40) << 16, 0)


def generated_process(random: Random, number: int, tag_keys: Sequence[str], hostile: bool) -> Process:
    process_id = generated_process_id(random, hostile)
    tags = {key: random.choice(("a", "b", "c", "é")) for key in tag_keys if random.random() < 0.97}
    if random.random() < 0.1:
        tags["other"] = "q"
    process = Process(process_id, _end_point(random, number), tags, [])
    for _ in range(random.choice(THREADS)):
        add_thread(random, process, number, hostile)
    return process


def add_thread(random: Random, process: Process, number: int, hostile: bool) -> None:
    """`number`: of the process, unique in its group."""
    index = len(process.threads) + 1
    kind = random.random()
    name = f"{random.choice(_STRANGE_NAMES)}-{number}-{index}"
    if hostile and kind < 0.5:
        bits = f"{number * 20 + index:010b}"
        name = "".join("BB" if bit == "1" else "Aa" for bit in bits)  # all of one hash code
    elif kind < 0.6:
        name = f"app-{process.process_id}-StreamThread-{index}-consumer-{UUID(int=random.getrandbits(128))}"
    thread = Thread(name, generation=random.choice((-1, 1, 5)))
    if random.random() < 0.15:
        thread.instance_id = f"instance-{number}-{index}"
    if hostile and random.random() < 0.1:
        thread.consumer_version = random.choice((0, 1, 2))
    process.threads.append(thread)


def draw_versions(random: Random, threads: Sequence[Thread]) -> None:
    """All up to date, all of one older version, a rolling upgrade, or some of a version that is not known yet."""
    kind = random.random()
    if kind < 0.55:
        return
    oldest = random.randrange(1, LATEST_SUPPORTED_VERSION + 1)
    for thread in threads:
        if kind < 0.7:
            thread.version = oldest
            thread.latest_version = random.choice((oldest, LATEST_SUPPORTED_VERSION))
        elif kind < 0.9:
            thread.version = random.randrange(oldest, LATEST_SUPPORTED_VERSION + 1)
            thread.latest_version = random.choice((*range(thread.version, LATEST_SUPPORTED_VERSION + 1), 14))
        elif random.random() < 0.3:
            thread.version = random.choice((12, 13, 20))
            thread.latest_version = thread.version + random.choice((0, 1))


def offset_sum(random: Random, end: int) -> int:
    """What a member may report of a task whose changelogs end at `end`: sentinels and edges as well."""
    edges = (-2, -2, -2, -3, 0, 0, 1, end // 2, max(end - 1, 0), end, end, end + 1, -4, -1, JAVA_LONG_MAX, -(2**63))
    return random.choice((*edges, random.randint(0, end)))


def member(random: Random, process: Process, thread: Thread, topics: Sequence[str], hostile: bool) -> dict[str, Any]:
    """An entry of `input.members`. `hostile`: threads of one process may contradict each other."""
    end_point, tags, rack = process.end_point, process.tags, process.rack
    if hostile and random.random() < 0.05:
        end_point = random.choice((None, "other:1"))
        rack = random.choice(("r1", None, "r9"))
        tags = dict.fromkeys(tags, "zz")
    if thread.version > LATEST_SUPPORTED_VERSION:
        user_data = struct.pack(">ii", thread.version, thread.latest_version) + random.randbytes(random.choice((0, 30)))
    else:
        user_data = _user_data(random, process, thread, end_point, tags)
    generation = None if thread.generation < 0 else thread.generation
    subscription = Subscription(tuple(topics), user_data, tuple(thread.owned), generation, rack)
    raw = encode_subscription(subscription, thread.consumer_version)
    if hostile and thread.consumer_version == 3 and random.random() < 0.05:
        raw = struct.pack(">h", random.choice((4, 7, 100))) + raw[2:] + b"later"
    return {
        "client_id": f"client-{thread.member_id}",
        "group_instance_id": thread.instance_id,
        "subscription": base64.b64encode(raw).decode(),
    }


def _user_data(random: Random, process: Process, thread: Thread, end_point: str | None, tags: dict[str, str]) -> bytes:
    named = thread.version >= _FIRST_WITH_NAMED_TOPOLOGY
    sums = {task: offset for task, offset in thread.offset_sums.items() if named or task.topology_name is None}
    return encode_subscription_info(
        SubscriptionInfo(
            version=thread.version,
            latest_supported_version=thread.latest_version if thread.version >= _FIRST_WITH_LATEST_VERSION else -1,
            process_id=process.process_id,
            user_end_point=end_point,
            task_offset_sums=sums,
            unique_field=random.choice((0, 1, -1)),
            error_code=thread.error_code,
            client_tags=tags,
        )
    )


def _end_point(random: Random, number: int) -> str | None:
    kind = random.random()
    if kind < 0.55:
        return f"host{number}:{random.choice((1, 80, 8080, 9092))}"
    if kind < 0.62:
        return "shared:80"
    return random.choice(_ODD_END_POINTS) if kind < 0.66 else None


def _process_id(high: int, low: int) -> ProcessId:
    return ProcessId.parse(str(UUID(int=high << 64 | low)))
