"""Connections that have sent much at once take turns, so that one read of them holds up nobody.

The event loop reads up to 256 KB of a connection at once. As one request these are nothing. As 7,000 requests that do
not wait for their answers, or as 43,000 chunks of one byte, they would keep the loop for a tenth of a second, and a
hundred such connections for ten. So what is large or dense is parsed in steps of `STEP_BYTES`, connection after
connection, and the loop turns after `TURN_S` or `TURN_STEPS`. What is small is parsed at once, as nearly all requests
are.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Protocol

from uvicorn.protocols.http.flow_control import FlowControl

STEP_BYTES = 1_024

TURN_S = 0.002

TURN_STEPS = 32
"""Each may start one request, and its answer costs much more than the step."""

MOST_BYTES_AT_ONCE = 4_096
"""Of one message: a heartbeat of a process with some ten members has fewer."""

MOST_LINES_AT_ONCE = 64
"""The head of a request has fewer, but for one that is dense."""


_CLOSE_WAIT = 8
"""The first byte of Linux's `struct tcp_info`, from its `tcp_states.h`."""


def goes_at_once(data: bytes, message_bytes: int) -> bool:
    """Whether this may be parsed without a turn. `message_bytes`: what came of its message before."""
    return message_bytes + len(data) <= MOST_BYTES_AT_ONCE and data.count(b"\n") <= MOST_LINES_AT_ONCE


class TakesTurns(Protocol):
    def take_turn(self) -> bool:
        """Do one step. False when there is nothing to do until the connection asks for a turn again."""


class ReadingTurns:
    """Of one event loop. A connection that is in the row stays where it is when it asks once more."""

    def __init__(self) -> None:
        self._row: deque[TakesTurns] = deque()
        self._in_row: set[TakesTurns] = set()
        self._comes = False

    def ask(self, connection: TakesTurns) -> None:
        if connection not in self._in_row:
            self._in_row.add(connection)
            self._row.append(connection)
        self._come_back()

    def _come_back(self) -> None:
        if self._row and not self._comes:
            self._comes = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._comes = False
        ends_at_s = perf_counter() + TURN_S
        steps = 0
        while self._row:
            connection = self._row.popleft()
            self._in_row.discard(connection)
            if connection.take_turn():
                self.ask(connection)
            steps += 1
            if steps == TURN_STEPS or perf_counter() >= ends_at_s:
                break
        self._come_back()


def has_hung_up(transport: asyncio.BaseTransport) -> bool:
    """Whether the caller has closed its end, although not all that it had sent has been read. Known on Linux only."""
    connection = transport.get_extra_info("socket")
    if sys.platform != "linux" or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    try:
        state: int = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    except OSError:
        return False
    return state == _CLOSE_WAIT


class TurnsFlowControl(FlowControl):
    """Reading stops when the application wants it, and while much of what was read waits for its turn.

    `ask` is called when the application wants more.
    """

    def __init__(self, transport: asyncio.Transport, ask: Callable[[], None]) -> None:
        super().__init__(transport)
        self._ask = ask
        self.application_waits = False
        self._rest_waits = False

    def pause_reading(self) -> None:
        self.application_waits = True
        self._follow()

    def resume_reading(self) -> None:
        self.application_waits = False
        self._follow()
        self._ask()

    def keep(self, rest: int) -> None:
        """`rest`: how many bytes wait for their turn. Only a connection that is read shows that its caller hung up."""
        self._rest_waits = rest > MOST_BYTES_AT_ONCE
        self._follow()

    def _follow(self) -> None:
        if self.application_waits or self._rest_waits:
            super().pause_reading()
        else:
            super().resume_reading()
