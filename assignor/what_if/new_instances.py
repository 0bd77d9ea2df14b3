"""Ids for instances and threads that are not there: the same for the same question, and spread as random ones are.

Kafka breaks ties by process id, so ids that all sorted last (or first) would favour some placements.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterator

from assignor.types import ProcessId


def new_process_ids(seed: str, taken: Container[ProcessId]) -> Iterator[ProcessId]:
    """Endless; none of `taken`."""
    number = 0
    while True:
        number += 1
        process = _uuid(f"process:{seed}:{number}")
        if process not in taken:
            yield process


def new_member(process: ProcessId, thread: int, client_prefix: str) -> tuple[str, str]:
    """Client id and member id of a stream thread; `thread` counts from 1. Named as Kafka Streams names them."""
    client_id = f"{client_prefix}-StreamThread-{thread}-consumer"
    return client_id, f"{client_id}-{_uuid(f'member:{process}:{thread}')}"


def new_members(process: ProcessId, count: int, client_prefix: str, taken: Container[str]) -> Iterator[tuple[str, str]]:
    """Client id and member id of `count` more threads, none of them among the `taken` names."""
    thread = 0
    while count:
        thread += 1
        client_id, member_id = new_member(process, thread, client_prefix)
        if client_id not in taken and member_id not in taken:
            count -= 1
            yield client_id, member_id


def _uuid(text: str) -> ProcessId:
    """A UUID of a hash (RFC 9562, version 8)."""
    raw = bytearray(hashlib.sha256(text.encode()).digest()[:16])
    raw[6] = raw[6] & 0x0F | 0x80
    raw[8] = raw[8] & 0x3F | 0x80
    return ProcessId.from_bytes(bytes(raw))
