"""The peer: a real broker with as many raw members of a classic group, and the time of Kafka Streams' own leader.

Every member has a connection of its own and speaks JoinGroup and SyncGroup in plain bytes; the leader sends the
assignments, which were computed before, in its SyncGroup. Connections are open before the clock starts, and nobody
sends heartbeats, which favours the broker. What the leader does in between (from all subscriptions' bytes to all
assignments') is measured apart, in a JVM of its own that has done the same several times before. The broker has a heap
and message sizes far above its defaults: with those it refuses the assignments of a large group.

Source of the bytes: `JoinGroupRequest.json` version 5, `SyncGroupRequest.json` version 3.
"""

from __future__ import annotations

import asyncio
import base64
import random
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from benchmarks.group_load.fleet_process import FleetPlan
from benchmarks.group_load.service import definition
from rebalance_analysis.rerun import RerunRebalance, run
from tests.acceptance.fleet.fleet_process import FleetProcess
from tests.acceptance.fleet.http_connection import Address
from tests.acceptance.fleet.witness import Witness
from tests.oracle.broker import Broker
from tests.oracle.oracle import Oracle

LEADER_RUNS = 6
HEAP_MB = 6_144
_LEADER_JVM = ("-Xmx4g", "-XX:+UseG1GC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off")
_LONGEST_LEADER_S = 240.0
_LARGEST = "1500000000"
_PROPERTIES = {
    "message.max.bytes": _LARGEST,
    "socket.request.max.bytes": _LARGEST,
    "offsets.topic.segment.bytes": _LARGEST,
    "max.connections.per.ip": "100000",
}
_JOIN, _SYNC, _HEARTBEAT, _FIND = (11, 5), (14, 3), (12, 3), (10, 0)
_NONE, _MEMBER_ID_REQUIRED, _UNKNOWN_MEMBER_ID, _REBALANCE_IN_PROGRESS = 0, 79, 25, 27
_LONGEST_CREATION_S = 60.0
_PAUSE_S = 0.1
_PROTOCOL_TYPE, _PROTOCOL = "consumer", "stream"


@dataclass(frozen=True, slots=True)
class PeerMember:
    """`subscription`, `assignment`: the bytes that go through the group."""

    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class PeerRound:
    """Seconds since the first join was sent: until the first answer to a join, and until the last assignment."""

    joined_s: float
    last_assignment_s: float
    bytes: int


@dataclass(frozen=True, slots=True)
class LeaderTimes:
    """Milliseconds of each run of the leader in one JVM, and the bytes of all its assignments."""

    each_ms: tuple[float, ...]
    bytes: int

    @property
    def cold_ms(self) -> float:
        return self.each_ms[0]

    @property
    def warm_ms(self) -> float:
        """The fastest but for the first runs: what a leader takes that has led before."""
        return min(self.each_ms[len(self.each_ms) // 2 :])


def peer_line(plan: FleetPlan, tasks: int) -> dict[str, Any]:
    """The rebalance of the same members with the same subscriptions, as rebalance/1 without output."""
    nobody, witness, chance = Address("127.0.0.1", 1), Witness(), random.Random(1)
    processes = [
        FleetProcess(number, nobody, plan.manners, witness, chance, members=plan.threads)
        for number in range(plan.processes)
    ]
    return {
        "format": "rebalance/1",
        "id": "peer",
        "group_id": plan.group,
        "generation_id": 1,
        "now_ms": 1_700_000_000_000,
        "source": "generated",
        "input": {
            **definition(tasks),
            "leader_process_id": processes[0].process_id,
            "members": {
                member.name: {
                    "client_id": member.name,
                    "group_instance_id": None,
                    "subscription": base64.b64encode(process.subscription_of(member)).decode(),
                }
                for process in processes
                for member in process.members
            },
        },
    }


def peer_members(line: Mapping[str, Any]) -> list[PeerMember]:
    """Each member of the line, with its assignment."""
    ran = run(line)
    assert isinstance(ran, RerunRebalance)
    assignments = ran.result.assignments
    return [
        PeerMember(base64.b64decode(member["subscription"]), bytes(assignments[name]))
        for name, member in line["input"]["members"].items()
    ]


def leader_times(line: Mapping[str, Any], runs: int = LEADER_RUNS) -> LeaderTimes:
    """Kafka Streams' own leader on the same input. Raises JarsUnavailable, OracleFault."""
    with Oracle(_LONGEST_LEADER_S, _LEADER_JVM) as oracle:
        output = oracle.ask({**line, "leader_runs": runs})["output"]
    return LeaderTimes(tuple(output["leader_ms"]), int(output["bytes"]))


def peer_broker(directory: Path, initial_delay_ms: int) -> Broker:
    """Not started. Raises JarsUnavailable."""
    delay = {"group.initial.rebalance.delay.ms": str(initial_delay_ms)}
    return Broker(directory, {**_PROPERTIES, **delay}, heap_mb=HEAP_MB, starts_fast=False)


async def first_rebalance(
    servers: str, group: str, members: Sequence[PeerMember], *, waits_for_all: bool = False
) -> PeerRound:
    """All members join a new group at once and get their assignments.

    `waits_for_all`: also on a broker without an initial delay, which closes the first generation of a group with
    whoever has joined by then. The first member leads that generation alone; the next one waits for every member that
    was given an id.
    """
    host, _, port = servers.rpartition(":")
    await _coordinator_is_there(host, int(port), group)
    connections = [await _connected(host, int(port)) for _ in members]
    peers = _Peers(group, members)
    begun = time.monotonic()
    try:
        if waits_for_all:
            await asyncio.gather(*(peers.get_id(number, each) for number, each in enumerate(connections)))
            generation_id = await peers.lead_alone(connections[0])
            again = peers.take_part_in_the_next(generation_id, connections[0])
            others = list(enumerate(connections))[1:]
            await asyncio.gather(again, *(peers.take_part(number, each) for number, each in others))
        else:
            await asyncio.gather(*(peers.take_part(number, each) for number, each in enumerate(connections)))
    finally:
        for each in connections:
            each.close()
    return PeerRound(peers.first_joined - begun, time.monotonic() - begun, peers.received)


@dataclass(slots=True)
class _Peers:
    group: str
    members: Sequence[PeerMember]
    first_joined: float = 0.0
    received: int = 0
    _ids: dict[int, str] = field(default_factory=dict)

    async def get_id(self, number: int, connection: _Connection) -> str:
        join = await connection.call(_JOIN, self._join(number, ""))
        code, member_id = _joined(join)[:2]
        assert code == _MEMBER_ID_REQUIRED, f"JoinGroup: error {code}"
        self._ids[number] = member_id
        return member_id

    async def lead_alone(self, connection: _Connection) -> int:
        """The first member joins, and no other has: the generation."""
        code, _, generation_id, leader = _joined(await connection.call(_JOIN, self._join(0, self._ids[0])))
        assert (code, leader) == (_NONE, self._ids[0]), f"JoinGroup: error {code}"
        return generation_id

    async def take_part_in_the_next(self, generation_id: int, connection: _Connection) -> None:
        """The first member, once another has joined: until then its join is answered with the same generation."""
        heartbeat = _standing(self.group, generation_id, self._ids[0])
        await _until(connection, _HEARTBEAT, heartbeat, 4, _REBALANCE_IN_PROGRESS)
        await self.take_part(0, connection)

    async def take_part(self, number: int, connection: _Connection) -> None:
        member_id = self._ids.get(number) or await self.get_id(number, connection)
        code, _, generation_id, leader = _joined(await connection.call(_JOIN, self._join(number, member_id)))
        assert code == _NONE, f"JoinGroup: error {code}"
        self.first_joined = self.first_joined or time.monotonic()
        assignments = self._assignments() if leader == member_id else struct.pack(">i", 0)
        synced = await connection.call(_SYNC, _standing(self.group, generation_id, member_id) + assignments)
        code, size = struct.unpack_from(">hi", synced, 4)
        assert code == _NONE, f"SyncGroup: error {code}"
        assert size == len(self.members[number].assignment), "the assignment came as it was sent"
        self.received += size

    def _join(self, number: int, member_id: str) -> bytes:
        head = _text(self.group) + struct.pack(">ii", 45_000, 300_000) + _text(member_id) + struct.pack(">h", -1)
        return head + _text(_PROTOCOL_TYPE) + _array([_text(_PROTOCOL) + _bytes(self.members[number].subscription)])

    def _assignments(self) -> bytes:
        return _array(
            [_text(member_id) + _bytes(self.members[number].assignment) for number, member_id in self._ids.items()]
        )


def _joined(body: bytes) -> tuple[int, str, int, str]:
    """Error, member id, generation and leader of a JoinGroup response."""
    code, generation_id = struct.unpack_from(">hi", body, 4)
    texts, at = [], 10
    for _ in range(3):  # protocol, leader, member id
        (length,) = struct.unpack_from(">h", body, at)
        texts.append(body[at + 2 : at + 2 + length].decode())
        at += 2 + max(length, 0)
    return code, texts[2], generation_id, texts[1]


def _standing(group: str, generation_id: int, member_id: str) -> bytes:
    """Who asks, as heartbeats and syncs begin: a dynamic member of a generation."""
    return _text(group) + struct.pack(">i", generation_id) + _text(member_id) + struct.pack(">h", -1)


async def _coordinator_is_there(host: str, port: int, group: str) -> None:
    """The first question for a coordinator makes the broker create its topic, which takes a while."""
    stranger = _standing(group, 1, "nobody")
    async with asyncio.timeout(_LONGEST_CREATION_S):
        connection = await _connected(host, port)
        await _until(connection, _FIND, _text(group), 0, _NONE)
        await _until(connection, _HEARTBEAT, stranger, 4, _UNKNOWN_MEMBER_ID)
        connection.close()


async def _until(connection: _Connection, kind: tuple[int, int], body: bytes, code_at: int, code: int) -> None:
    """Ask again until the answer has this error code."""
    for _ in range(round(_LONGEST_CREATION_S / _PAUSE_S)):
        if struct.unpack_from(">h", await connection.call(kind, body), code_at)[0] == code:
            return
        await asyncio.sleep(_PAUSE_S)


class _Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError(f"the broker closed the connection: {exc}"))

    async def call(self, kind: tuple[int, int], body: bytes) -> bytes:
        """What follows the correlation id in the answer."""
        assert self._transport is not None, "it is connected"
        self._answer = asyncio.get_running_loop().create_future()
        request = struct.pack(">hhi", *kind, 0) + _text("load") + body
        self._transport.writelines([struct.pack(">i", len(request)), request])
        return await self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) < 4:
            return
        (length,) = struct.unpack_from(">i", self._received)
        if len(self._received) < 4 + length:
            return
        answer = bytes(self._received[8 : 4 + length])
        self._received.clear()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)


async def _connected(host: str, port: int) -> _Connection:
    _, connection = await asyncio.get_running_loop().create_connection(_Connection, host, port)
    return connection


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def _bytes(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def _array(items: Sequence[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)
