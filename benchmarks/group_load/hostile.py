"""Callers who mean harm, or might as well: what others feel meanwhile, and whether memory comes back.

Each row has a service of its own with a group of 40 members that goes on living. Its four probing members say what
others feel, and so does somebody who opens a connection for each call. All of them live in processes of their own, and
what the hostile callers send is made before anything is measured: a driver that makes a body of 16 MB would hold up
the measuring one, and be taken for the service.
"""

import contextlib
import json
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast
from urllib.parse import urlsplit

from benchmarks.group_load.fresh_callers import FreshCallers
from benchmarks.group_load.rebalances import GroupSize, GroupUnderLoad, group_under_load
from benchmarks.group_load.results import Results
from benchmarks.group_load.service import PeakOfMemory, definition, memory_of
from tests.acceptance.fleet.http_connection import request_bytes

OTHERS = GroupSize(processes=20, threads=2, tasks=100)
P99_MS = 100.0
MEMORY_BACK_MB = 50.0
"""What a service may keep of a hostile request's memory: freed pages that the allocator has not given back."""

WORKERS_AT_MOST = 4
"""Of one kind (`computation.max.count`)."""

FILES = 1_024
SILENT_CONNECTIONS, TRICKLING_CONNECTIONS, SLOW_READERS = 1_100, 900, 200
PIPELINING_CONNECTIONS, CHUNKING_CONNECTIONS = 800, 100
FLOOD_BYTES = 262_144
"""Sent or read at once."""

_LONGEST_ANSWER_S = 60.0


@dataclass(slots=True)
class Attack:
    """`answers`: what the hostile callers were told, by words."""

    load: GroupUnderLoad
    results: Results
    member_id: str
    answers: list[str] = field(default_factory=list)

    @property
    def address(self) -> tuple[str, int]:
        url = urlsplit(self.load.service.url)
        assert url.hostname is not None
        assert url.port is not None
        return url.hostname, url.port

    def size(self, full: int) -> int:
        return full // 50 if self.results.quick else full

    def call(self, call: bytes, hang_up_after_s: float | None = None) -> str:
        """One call on a connection of its own; its status, or what happened instead."""
        begun = time.monotonic()
        try:
            with socket.create_connection(self.address, timeout=hang_up_after_s or _LONGEST_ANSWER_S) as connection:
                connection.sendall(call)
                told = connection.recv(4_096)[9:12].decode("latin-1") or "closed"
        except TimeoutError:
            told = "hung up"
        except OSError as fault:
            told = type(fault).__name__
        said = f"{told} after {time.monotonic() - begun:.1f} s"
        self.answers.append(said)
        return said


Act = Callable[[], object]

Attacker = Callable[[Attack], Act]
"""Prepares an attack, and gives what carries it out."""


def unknown_fields(attack: Attack) -> Act:
    fields = {f"field-{number}": number for number in range(attack.size(1_000_000))}
    return partial(attack.call, _heartbeat(attack, {"generation_id": 1, **fields}))


def many_offset_sums(attack: Attack) -> Act:
    sums = {f"0_{number}": number for number in range(attack.size(1_000_000))}
    return partial(attack.call, _heartbeat(attack, {"generation_id": 1, "task_offset_sums": sums}))


def many_subtopologies(attack: Attack) -> Act:
    document = definition(1)
    (one,) = document["topology"]["subtopologies"]
    document["topology"]["subtopologies"] = [
        {**one, "id": number, "stores": []} for number in range(attack.size(100_000))
    ]
    return partial(attack.call, request_bytes("PUT", "/v1/groups/hostile", json.dumps(document).encode()))


def simulations_without_callers(attack: Attack) -> Act:
    call = request_bytes("POST", "/v1/simulate?jitter=0.5", json.dumps(_long_simulation(attack)).encode())
    return partial(_simulate_and_hang_up, attack, call)


def _simulate_and_hang_up(attack: Attack, call: bytes) -> None:
    """Four that take long, whose callers hang up after a second; then somebody who wants one himself."""
    callers = [threading.Thread(target=attack.call, args=(call, 1.0)) for _ in range(4)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    small = request_bytes("POST", "/v1/assign", json.dumps(_small_problem()).encode())
    begun = time.monotonic()
    while not (told := attack.call(small)).startswith("200"):
        assert time.monotonic() - begun < _LONGEST_ANSWER_S, f"nobody else is served: {told}"
        time.sleep(0.05)
    attack.answers.append(f"another caller is served {time.monotonic() - begun:.1f} s later")


def silent_connections(attack: Attack) -> Act:
    return partial(_crowd, attack, attack.size(SILENT_CONNECTIONS), b"", trickles=False)


def trickling_connections(attack: Attack) -> Act:
    begun = b"POST /v1/groups/load/subscriptions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    return partial(_crowd, attack, attack.size(TRICKLING_CONNECTIONS), begun, trickles=True)


def slow_readers(attack: Attack) -> Act:
    """They ask for much, on and on, and read nothing."""
    call = request_bytes("GET", "/v1/groups/load/rebalances/1") * 50
    return partial(_crowd, attack, attack.size(SLOW_READERS), call, trickles=False)


def _crowd(attack: Attack, size: int, greeting: bytes, *, trickles: bool) -> None:
    with _connections(attack, size) as opened:
        for each in opened:
            _send(each, greeting)
        _hold(attack, opened, trickles=trickles)


def requests_without_waiting(attack: Attack) -> Act:
    return partial(_flood, attack, attack.size(PIPELINING_CONNECTIONS), request_bytes("GET", "/livez") * 20_000)


def bodies_of_small_chunks(attack: Attack) -> Act:
    head = b"POST /v1/assign HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    return partial(_flood, attack, attack.size(CHUNKING_CONNECTIONS), head + b"1\r\n \r\n" * 2_000_000)


ATTACKS: dict[str, tuple[str, Attacker, int | None]] = {
    "hostile-fields": ("a heartbeat with 1 M unknown fields", unknown_fields, None),
    "hostile-offset-sums": ("a heartbeat with 1 M task_offset_sums", many_offset_sums, None),
    "hostile-subtopologies": ("a PUT with 100,000 subtopologies", many_subtopologies, None),
    "hostile-simulate": ("4 simulations whose callers hang up after 1 s", simulations_without_callers, None),
    "hostile-silent": ("1,100 silent connections at nofile 1024", silent_connections, FILES),
    "hostile-trickling": ("900 connections that trickle headers", trickling_connections, FILES),
    "hostile-slow-readers": ("200 callers that read no answer", slow_readers, FILES),
    "hostile-pipelined": ("800 connections that wait for no answer", requests_without_waiting, FILES),
    "hostile-chunks": ("100 bodies of 2 M chunks of one byte", bodies_of_small_chunks, FILES),
}
"""By row: what it is, who does it, and how many files the service may have open (None: as many as this process)."""

FLOODS = {"hostile-pipelined", "hostile-chunks"}
"""Measured without a goal: nginx keeps these from the service (SECURITY.md)."""


def hostile(row: str, results: Results) -> None:
    words, attacker, files = ATTACKS[row]
    with group_under_load(OTHERS, results.pace, files=files) as load:
        load.form()
        attack = Attack(load, results, load.fleet.member_ids()[0])
        _start_workers(attack)
        act = attacker(attack)
        before = memory_of(load.service.pid)
        with PeakOfMemory(load.service.pid) as peak, FreshCallers(attack.address) as fresh:
            begun = time.monotonic()
            act()
            time.sleep(max(0.0, begun + results.pace.attack_s / 4 - time.monotonic()))  # it may act after its answer
            ended = time.monotonic()
        seen = load.probes.report().heartbeats.between(begun, ended)
        note = f"{words}: {', '.join(dict.fromkeys(attack.answers))}"
        p99_ms, memory_back_mb = (None, None) if row in FLOODS else (P99_MS, MEMORY_BACK_MB)
        results.add(row, "other callers' p99", seen.p99, "ms", p99_ms, f"{note}; {seen}")
        new = fresh.latencies.between(begun, ended)
        results.add(row, "p99 of callers with a new connection", new.p99, "ms", p99_ms, str(new))
        results.add(row, "memory at the peak, above that before", (peak.bytes - before) / 1e6, "MB")
        time.sleep(results.pace.memory_back_s)  # the goal is about the memory after this time
        kept = (memory_of(load.service.pid) - before) / 1e6
        results.add(row, "memory kept 10 s later", kept, "MB", memory_back_mb)
        results.add(row, "evictions of live members", load.evictions(), "", 0)


def _start_workers(attack: Attack) -> None:
    """Ordinary calls of the kinds that worker processes answer: these stay, and are not what a hostile call costs."""
    calls = [
        request_bytes("POST", "/v1/assign", json.dumps(_small_problem()).encode()),
        request_bytes("GET", "/v1/groups/load/rebalances/1"),
    ]
    callers = [threading.Thread(target=attack.call, args=(call,)) for call in calls * WORKERS_AT_MOST]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    attack.answers.clear()


@contextlib.contextmanager
def _connections(attack: Attack, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(count):
            with contextlib.suppress(OSError):
                opened.append(stack.enter_context(socket.create_connection(attack.address, timeout=2)))
        yield opened


def _hold(attack: Attack, opened: list[socket.socket], *, trickles: bool) -> None:
    """Keep the connections for so long, with a byte each second from those that trickle; say how many were cut."""
    begun = time.monotonic()
    longest = 0.0
    cut: set[int] = set()
    while time.monotonic() - begun < attack.results.pace.attack_s:
        time.sleep(1.0)  # a byte a second is what trickling means
        for number, each in enumerate(opened):
            if number not in cut and (_is_cut(each) or (trickles and not _send(each, b"X"))):
                cut.add(number)
                longest = time.monotonic() - begun
    attack.answers.append(f"{len(cut)} of {len(opened)} cut within {longest:.0f} s" if cut else "none is cut")


def _flood(attack: Attack, count: int, content: bytes) -> None:
    """Each connection sends `content` as fast as it is taken, and reads whatever comes."""
    sent = read = 0
    with _connections(attack, count) as opened, selectors.DefaultSelector() as selector:
        for each in opened:
            each.setblocking(False)
            selector.register(each, selectors.EVENT_READ | selectors.EVENT_WRITE, memoryview(content))
        ends_at_s = time.monotonic() + attack.results.pace.attack_s
        while selector.get_map() and time.monotonic() < ends_at_s:
            for key, events in selector.select(0.1):
                connection, rest = cast(socket.socket, key.fileobj), cast(memoryview, key.data)
                try:
                    if events & selectors.EVENT_WRITE:
                        taken = connection.send(rest[:FLOOD_BYTES])
                        sent += taken
                        rest = rest[taken:]
                        wants = selectors.EVENT_READ | (selectors.EVENT_WRITE if rest else 0)
                        selector.modify(connection, wants, rest)
                    if events & selectors.EVENT_READ:
                        told = len(connection.recv(FLOOD_BYTES))
                        read += told
                        if not told:
                            selector.unregister(connection)
                except BlockingIOError:
                    pass
                except OSError:
                    selector.unregister(connection)
        attack.answers.append(f"{sent / 1e6:.0f} MB taken from {len(opened)}, {read / 1e6:.1f} MB answered")


def _send(connection: socket.socket, content: bytes) -> bool:
    connection.setblocking(False)
    try:
        connection.send(content)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return True


def _is_cut(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _heartbeat(attack: Attack, body: dict[str, Any]) -> bytes:
    return request_bytes("POST", f"/v1/groups/load/members/{attack.member_id}/heartbeat", json.dumps(body).encode())


def _long_simulation(attack: Attack) -> dict[str, Any]:
    """A group that needs many rebalances: a new process beside one that has all of the state."""
    clients, tasks = 18, attack.size(10_000)
    names = [f"0_{number}" for number in range(tasks)]
    has_all = {"prev_active": names, "lags": dict.fromkeys(names, 0)}
    has_nothing = {"prev_active": [], "lags": dict.fromkeys(names, 10**9)}
    return _problem(names, {_process_id(number): has_nothing if number else has_all for number in range(clients)})


def _small_problem() -> dict[str, Any]:
    return _problem(["0_0"], {_process_id(1): {"prev_active": [], "lags": {"0_0": 0}}})


def _problem(tasks: list[str], clients: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """placement/1"""
    return {
        "format": "placement/1",
        "id": "hostile",
        "assignor": "HighAvailabilityTaskAssignor",
        "configs": {},
        "tasks": tasks,
        "stateful": tasks,
        "clients": {
            process: {
                "capacity": 1,
                "consumers": [f"consumer-{process}"],
                "prev_standby": [],
                "tags": {},
                "rack": None,
                **state,
            }
            for process, state in clients.items()
        },
    }


def _process_id(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012d}"
