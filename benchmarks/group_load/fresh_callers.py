"""Somebody who opens a connection for each call, 20 times a second, in a process of its own."""

import contextlib
import multiprocessing
import socket
import time
from multiprocessing.connection import Connection
from typing import Self

from benchmarks.group_load.latencies import Latencies
from tests.acceptance.fleet.http_connection import request_bytes

EVERY_S = 0.05
LONGEST_CALL_S = 5.0
_SERVED = b"HTTP/1.1 200"
_CONTEXT = multiprocessing.get_context("spawn")


class FreshCallers:
    """They call as long as the `with` block runs. `latencies`: after its end; a call without an answer counts as one of
    `LONGEST_CALL_S`.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self.latencies = Latencies()

    def __enter__(self) -> Self:
        self._pipe, other = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_call_until_told, args=(other, self._address), daemon=True)
        self._process.start()
        other.close()
        assert self._pipe.recv() == "calling"
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.send("end")
        self.latencies = self._pipe.recv()
        self._pipe.close()
        self._process.join()


def _call_until_told(pipe: Connection, address: tuple[str, int]) -> None:
    latencies = Latencies()
    call = request_bytes("GET", "/livez")
    pipe.send("calling")
    while not pipe.poll(EVERY_S):
        begun, told = time.monotonic(), b""
        with contextlib.suppress(OSError), socket.create_connection(address, timeout=LONGEST_CALL_S) as connection:
            connection.sendall(call)
            told = connection.recv(4_096)
        served = told.startswith(_SERVED)
        latencies.add(begun, time.monotonic() if served else begun + LONGEST_CALL_S, EVERY_S)
    pipe.send(latencies)
