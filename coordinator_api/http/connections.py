"""The connections of the service: how many there may be, which one makes room for another, and which ones are cut.

Any number of silent or slow connections leaves the others served:

- A connection that has not sent its complete headers in time is cut, however steadily they trickle in. The time runs
  from the first byte of a request, and from the start of a connection, so that it bounds a TLS handshake, too.
- At the limit the connection makes room that has waited longest without ever having sent a whole request; after these,
  the one that has been sending the body of a later request longest, and then the one that has been idle longest between
  two requests. When all are busy, the new one gets a 503.
- A caller who does not read its answer is cut once it had enough time for it, or has read nothing of it for a moment.
  When all unread answers together are too many bytes, those are cut that are being read longest.
- Connections that have sent much at once take turns (`reading_turns`), and so do those that send a request before the
  last one was answered.

`ServiceConnections` counts and chooses; it knows no sockets. `service_connection` is the protocol of one.
Every connection has a number, which requests carry in `scope["state"]`, so that a group can tell which of its processes
died when a connection breaks. Source of the limits' names: the broker's `SocketServerConfigs`.
"""

from __future__ import annotations

import os
import resource
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from itertools import count
from typing import Protocol

from assignor.operating_system import raise_open_file_limit
from coordinator_api.http.problems import Problem
from coordinator_api.http.reading_turns import ReadingTurns
from coordinator_api.settings import Settings

CONNECTION_ID = "connection_id"
"""Under this key the `state` of a request has the number of its connection."""

MOST_UNREAD_BYTES = 256 * 1024 * 1024
"""Of the answers of all connections, beyond what the system's own buffers hold."""

_REFUSED_AT_ONE_TIME = 32
_LEAST_RESERVE = 64
_RESERVED_SHARE = 8

_TRY_AGAIN = {"Retry-After": "1", "Connection": "close"}


def connection_limit(settings: Settings) -> int:
    """How many connections there may be. Raises this process's limit of open files as far as it may.

    What the limit of open files allows is what is left of it beside the files that are open now and a reserve, which
    the store, worker processes, cluster clients and refused connections share.
    """
    soft = raise_open_file_limit()
    most = settings.max_connections or 2**31 - 1
    if soft == resource.RLIM_INFINITY:
        return most
    reserve = max(_LEAST_RESERVE, soft // _RESERVED_SHARE)
    return max(1, min(most, soft - reserve - _open_files()))


def _open_files() -> int:
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:
        return 0


class CutReason(StrEnum):
    """Why the service ended a connection."""

    ROOM = "room"
    HEADERS = "headers"
    READER = "reader"
    REFUSED = "refused"
    HANDSHAKE = "handshake"


class Cuttable(Protocol):
    """A connection as `ServiceConnections` sees it."""

    @property
    def due_s(self) -> float:
        """On the event loop's clock: when the connection has had its time; infinite while it has all the time."""

    @property
    def slow(self) -> CutReason:
        """What it has spent its time with."""

    @property
    def slow_since_s(self) -> float:
        """Since when its caller has been behind with reading its answers; infinite while he keeps up."""

    def unread_bytes(self, now_s: float) -> int:
        """How much he still has to read. Notes when he last read something."""

    def end_if_hung_up(self) -> None:
        """While what its caller had sent waits for its turn, nobody reads on to the end: so look."""

    def cut(self) -> None:
        """End it at once, whatever has not been sent yet."""


class ServiceConnections:
    """All connections of one service, on its event loop. No method takes longer when there are more of them, `sweep`
    apart.

    `on_lost`: gets the number of each connection that broke, or that its caller closed. `on_closed`: those that the
    service ended itself. `on_cut`: why it ended one before its time.
    """

    def __init__(self, limit: int, limit_per_address: int, headers_timeout_s: float, answer_timeout_s: float) -> None:
        self.limit = limit
        self.headers_timeout_s = headers_timeout_s
        self.answer_timeout_s = answer_timeout_s
        self.turns = ReadingTurns()
        self.on_lost: Callable[[int], None] = lambda number: None
        self.on_closed: Callable[[int], None] = lambda number: None
        self.on_cut: Callable[[CutReason], None] = lambda reason: None
        self._limit_per_address = limit_per_address
        self._numbers = count(1)
        self._open: dict[int, tuple[Cuttable, str]] = {}
        self._of_address: Counter[str] = Counter()
        # each in the order in which its connections came into it
        self._without_a_request: dict[int, None] = {}
        self._in_a_body: dict[int, None] = {}
        self._between_requests: dict[int, None] = {}
        self._refused: set[Cuttable] = set()

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Cuttable, address: str) -> int:
        """Let in a connection, if need be in place of an idle one, and give it its number. Raises Problem."""
        if self._of_address[address] >= self._limit_per_address:
            raise Problem(
                "THROTTLING_QUOTA_EXCEEDED",
                f"this address has {self._limit_per_address} connections already (max.connections.per.ip)",
                headers=_TRY_AGAIN,
            )
        if len(self._open) >= self.limit and not self._make_room():
            raise Problem(
                "THROTTLING_QUOTA_EXCEEDED",
                f"{self.limit} connections are busy (max.connections, limit of open files): try again",
                status=503,
                headers=_TRY_AGAIN,
            )
        number = next(self._numbers)
        self._open[number] = connection, address
        self._of_address[address] += 1
        self._without_a_request[number] = None
        return number

    def refuse(self, connection: Cuttable) -> bool:
        """Keep a refused connection for a moment; False when too many are kept already."""
        self.on_cut(CutReason.REFUSED)
        if len(self._refused) >= _REFUSED_AT_ONE_TIME:
            return False
        self._refused.add(connection)
        return True

    def begun(self, number: int) -> None:
        """The connection has sent the headers of a request."""
        if number not in self._without_a_request:
            self._between_requests.pop(number, None)
            self._in_a_body[number] = None

    def busy(self, number: int) -> None:
        """The connection has sent a whole request."""
        self._without_a_request.pop(number, None)
        self._in_a_body.pop(number, None)
        self._between_requests.pop(number, None)

    def idle(self, number: int) -> None:
        """The last request of the connection has been answered."""
        if number in self._open:
            self._between_requests[number] = None

    def gone(self, number: int | None, connection: Cuttable, *, ended_here: bool) -> None:
        """`number`: None for a connection that was refused. `ended_here`: the service ended it."""
        self._refused.discard(connection)
        if number is not None:
            self._forget(number)
            (self.on_closed if ended_here else self.on_lost)(number)

    def sweep(self, now_s: float) -> None:
        """Cut every connection that has had its time, or that is behind with too much; end those of hang-ups."""
        for connection in [each for each, _ in self._open.values()]:
            connection.end_if_hung_up()
        readers = [each for each, _ in self._open.values() if each.slow_since_s <= now_s]
        unread = {each: each.unread_bytes(now_s) for each in readers}
        for connection in [each for each, _ in self._open.values() if each.due_s <= now_s]:
            unread.pop(connection, None)
            self._cut(connection, connection.slow)
        too_many = sum(unread.values()) - MOST_UNREAD_BYTES
        for connection in sorted(unread, key=lambda each: each.slow_since_s):
            if too_many <= 0:
                break
            too_many -= unread[connection]
            self._cut(connection, CutReason.READER)
        for connection in [each for each in self._refused if each.due_s <= now_s]:
            connection.cut()

    def _cut(self, connection: Cuttable, reason: CutReason) -> None:
        self.on_cut(reason)
        connection.cut()

    def _make_room(self) -> bool:
        for idle in (self._without_a_request, self._in_a_body, self._between_requests):
            if idle:
                number = next(iter(idle))
                connection, _ = self._open[number]
                # counted as gone at once: the event loop tells of it only after it has let in others
                self._forget(number)
                self.on_cut(CutReason.ROOM)
                connection.cut()
                return True
        return False

    def _forget(self, number: int) -> None:
        self.busy(number)
        found = self._open.pop(number, None)
        if found is not None:
            self._of_address[found[1]] -= 1
            if not self._of_address[found[1]]:
                del self._of_address[found[1]]
