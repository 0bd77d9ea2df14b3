"""Fresh messages of every version, as lines of codec/1, each drawn from one seed; and ways to damage their bytes.

Values go to the edges of their fields: text of every width in UTF-8 and UTF-16, lone surrogates, numbers at both ends,
versions that contradict each other, tasks of named topologies. What cannot be written is part of it.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any
from uuid import UUID

Line = dict[str, Any]

INFO_VERSIONS = range(1, 12)
CONSUMER_VERSIONS = range(4)
_INT_EDGES = {bits: (0, 1, 2, -1, -2, -3, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))) for bits in (8, 32, 64)}
_CHARACTERS = ("a", "\0", "\x7f", "é", "\u07ff", "\u0800", "日", "\uffff", "😀", "\U0010ffff", "\ud800", "\udfff")
_TOPOLOGY_NAMES = ("top", "é", "日本", "😀", "x" * 300)
_DAMAGE = (b"", b"\0", b"\1", b"\x7f", b"\x80", b"\xed", b"\xff", b"\xff" * 4, b"\x7f\xff\xff\xff", b"\0\0\0\2")


def codec_lines(seed: int, values_per_version: int) -> Iterator[Line]:
    """Lines to encode: for every message and version so many values."""
    for message, (versions, draw) in _MESSAGES.items():
        for version in versions:
            for number in range(values_per_version):
                name = f"{seed}-{message}-{version}.{number}"
                fields = draw(Random(name), version)
                yield {"format": "codec/1", "id": name, "op": f"{message}_encode", "input": fields}


def damaged(random: Random, raw: bytes) -> bytes:
    """Cut short, made longer, overwritten, or with a piece put in or taken out."""
    kind = random.random()
    if kind < 0.25:
        return raw[: random.randint(0, len(raw))]
    if kind < 0.35:
        return raw + random.randbytes(random.randint(1, 8))
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        start = random.randint(0, len(raw))
        piece = random.choice((*_DAMAGE, random.randbytes(1)))
        raw = raw[:start] + piece + raw[start + (len(piece) if kind < 0.9 else random.randint(0, 4)) :]
    return raw


def _subscription_info(random: Random, version: int) -> Line:
    latest = -1 if version < 3 and random.random() < 0.8 else random.choice((11, 11, version, 12, version - 1, -1))
    tasks = random.choice((0, 1, 3, 8, 14, 30))
    named = version >= 10 or random.random() < 0.03
    return {
        "version": version,
        "latest_supported_version": latest,
        "process_id": str(UUID(int=random.choice((0, 1, 2**127, 2**128 - 1, random.getrandbits(128))))),
        "user_end_point": _text(random) if random.random() < 0.7 else None,
        "task_offset_sums": {_task(random, named): _integer(random, 64) for _ in range(tasks)},
        "unique_field": _integer(random, 8),
        "error_code": _integer(random, 32),
        "client_tags": {_text(random): _text(random) for _ in range(random.choice((0, 0, 1, 2, 5)))},
    }


def _assignment_info(random: Random, version: int) -> Line:
    named = version >= 10 or random.random() < 0.03
    return {
        "version": version if random.random() < 0.98 else random.choice((0, 12, -1)),
        "commonly_supported_version": random.choice((-1, version, 11, _integer(random, 32))),
        "active_tasks": [_task(random, named) for _ in range(random.choice((0, 1, 3, 8)))],
        "standby_tasks": {_task(random, named): _partitions(random) for _ in range(random.choice((0, 1, 3, 14)))},
        "partitions_by_host": _hosts(random),
        "standby_partitions_by_host": _hosts(random),
        "err_code": _integer(random, 32),
        "next_rebalance_ms": _integer(random, 64),
    }


def _consumer_subscription(random: Random, version: int) -> Line:
    return {
        "version": version if version < 3 else random.choice((3, 3, 4, 9)),
        "topics": [_text(random) for _ in range(random.choice((0, 1, 3)))],
        "user_data_b64": random.choice((None, "", "AAECAw==")),
        "owned_partitions": _partitions(random),
        "generation_id": random.choice((-1, 0, 7, 2**31 - 1)),
        "rack": random.choice((None, "", "rack", "räck")),
    }


def _consumer_assignment(random: Random, version: int) -> Line:
    return {
        "version": version if version < 3 else random.choice((3, 3, 4, 9)),
        "partitions": _partitions(random),
        "user_data_b64": random.choice((None, "", "AAECAw==")),
    }


_MESSAGES: dict[str, tuple[range, Callable[[Random, int], Line]]] = {
    "subscription_info": (INFO_VERSIONS, _subscription_info),
    "assignment_info": (INFO_VERSIONS, _assignment_info),
    "consumer_subscription": (CONSUMER_VERSIONS, _consumer_subscription),
    "consumer_assignment": (CONSUMER_VERSIONS, _consumer_assignment),
}


def _integer(random: Random, bits: int) -> int:
    return random.choice((*_INT_EDGES[bits], random.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1))))


def _text(random: Random) -> str:
    kind = random.random()
    if kind < 0.5:
        return "".join(random.choices("abcZ_-.09", k=random.randint(0, 8)))
    if kind < 0.6:
        return "x" * random.choice((0, 1, 127, 128, 300))
    mixed = "".join(random.choices(_CHARACTERS, k=random.randint(0, 6)))
    return mixed.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")  # two halves are one character


def _task(random: Random, named: bool) -> str:
    subtopology = random.choice((0, 1, 2, 3, 16, 48, random.randrange(80), random.randrange(12) * 64, 2**31 - 1))
    name = f"{random.choice(_TOPOLOGY_NAMES)}__" if named and random.random() < 0.3 else ""
    return f"{name}{subtopology}_{random.choice((0, 1, 5, random.randrange(50), 2**31 - 1))}"


def _partitions(random: Random) -> list[list[Any]]:
    drawn = {
        (_text(random), random.choice((0, 1, 7, random.randrange(99)))) for _ in range(random.choice((0, 1, 3, 6)))
    }
    return [list(partition) for partition in sorted(drawn)]


def _hosts(random: Random) -> Line:
    ports = (0, 80, 65_535, 70_000, -1, 2**31 - 1)
    return {
        f"{_text(random)}:{random.choice(ports)}": _partitions(random) for _ in range(random.choice((0, 0, 1, 3, 14)))
    }
