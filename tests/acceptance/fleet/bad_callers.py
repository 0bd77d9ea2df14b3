"""Callers that do what a service must bear: slow, hostile, or gone in the middle of a call."""

import asyncio
import contextlib
import json
import random
from collections.abc import Awaitable, Callable

from tests.acceptance.fleet.http_connection import Address, request_bytes
from tests.coordinator_api.group_members import definition

PIECE_BYTES = 7
PIECE_PAUSE_S = 0.05

Caller = Callable[[Address, str, random.Random], Awaitable[None]]


async def slow_sender(address: Address, path: str, chance: random.Random) -> None:
    """A PUT that comes a few bytes at a time."""
    request = request_bytes("PUT", f"/v1/groups/slow-{chance.randrange(10)}", definition())
    await _in_pieces(address, request[:2_000], chance)


async def slow_reader(address: Address, path: str, chance: random.Random) -> None:
    """Asks for something long, and reads a few bytes of it."""
    reader, writer = await asyncio.open_connection(address.host, address.port, limit=64)
    try:
        writer.write(request_bytes("GET", path) * 20)
        for _ in range(20):
            await reader.read(PIECE_BYTES)
            await asyncio.sleep(PIECE_PAUSE_S)
    finally:
        writer.transport.abort()


async def hang_up_in_a_join(address: Address, path: str, chance: random.Random) -> None:
    await _and_gone(address, _part(request_bytes("POST", f"{path}/subscriptions", _join_body()), chance))


async def hang_up_in_a_simulation(address: Address, path: str, chance: random.Random) -> None:
    """The request is whole; nobody waits for what comes of it."""
    await _and_gone(address, request_bytes("POST", "/v1/simulate", simulation()))


async def hang_up_in_a_fetch(address: Address, path: str, chance: random.Random) -> None:
    await _and_gone(address, request_bytes("GET", f"{path}/members/nobody/assignment?wait_ms=60000"))


async def hang_up_in_headers(address: Address, path: str, chance: random.Random) -> None:
    await _and_gone(address, _part(request_bytes("GET", path, headers={"X-Long": "x" * 500}), chance))


async def send_garbage(address: Address, path: str, chance: random.Random) -> None:
    await _said(address, chance.randbytes(2_000) + b"\r\n\r\n")


async def send_many_fields(address: Address, path: str, chance: random.Random) -> None:
    body = b"{" + b",".join(b'"f%d":0' % number for number in range(100_000)) + b"}"
    await _said(address, request_bytes("POST", f"{path}/members/m/heartbeat", body))


async def send_many_sums(address: Address, path: str, chance: random.Random) -> None:
    sums = {f"0_{number}": number for number in range(100_000)}
    body = {"members": {"m": {"generation_id": 1, "task_offset_sums": sums}}}
    await _said(address, request_bytes("POST", f"{path}/heartbeat?wait_ms=0", body))


async def send_deep_json(address: Address, path: str, chance: random.Random) -> None:
    await _said(address, request_bytes("PUT", "/v1/groups/deep", b"[" * 200_000))


ALL: tuple[Caller, ...] = (
    slow_sender,
    slow_reader,
    hang_up_in_a_join,
    hang_up_in_a_simulation,
    hang_up_in_a_fetch,
    hang_up_in_headers,
    send_garbage,
    send_many_fields,
    send_many_sums,
    send_deep_json,
)


async def keep_calling(address: Address, path: str, chance: random.Random, callers: tuple[Caller, ...] = ALL) -> None:
    """One bad caller after the other, until cancelled. `path`: of a group that others use."""
    while True:
        # the service may be away, or hang up first
        with contextlib.suppress(OSError, EOFError, TimeoutError):
            async with asyncio.timeout(20):
                await chance.choice(callers)(address, path, chance)
        await asyncio.sleep(chance.uniform(0, 0.1))


def simulation(partitions: int = 4) -> dict[str, object]:
    """A POST /v1/simulate that is valid, of a group with one process."""
    clients = {f"00000000-0000-0000-0000-{number:012d}": {"capacity": 1, "lags": {}} for number in range(1, 3)}
    tasks = [f"0_{partition}" for partition in range(partitions)]
    return {
        "format": "placement/1",
        "id": "bad-caller",
        "assignor": "HighAvailabilityTaskAssignor",
        "configs": {},
        "tasks": tasks,
        "stateful": tasks,
        "clients": clients,
    }


def _join_body() -> bytes:
    document = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "subscription": "A" * 400}
    return json.dumps(document).encode("ascii")


def _part(request: bytes, chance: random.Random) -> bytes:
    return request[: chance.randrange(1, len(request))]


async def _said(address: Address, request: bytes) -> bytes:
    """Sends all of it, and reads what is answered first."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(request)
        await writer.drain()
        return await reader.read(65_536)
    finally:
        writer.transport.abort()


async def _and_gone(address: Address, request: bytes) -> None:
    _, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(request)
        await writer.drain()
    finally:
        writer.transport.abort()


async def _in_pieces(address: Address, request: bytes, chance: random.Random) -> None:
    _, writer = await asyncio.open_connection(address.host, address.port)
    try:
        for start in range(0, len(request), PIECE_BYTES):
            writer.write(request[start : start + PIECE_BYTES])
            await writer.drain()
            await asyncio.sleep(PIECE_PAUSE_S * chance.random())
    finally:
        writer.transport.abort()
