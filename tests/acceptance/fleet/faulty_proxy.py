"""A TCP proxy on loopback that can lose and delay answers, fall silent, and break all its connections at once."""

import asyncio
import random
from types import TracebackType
from typing import Self

from tests.acceptance.fleet.http_connection import Address

CHUNK_BYTES = 65_536


class _Pair:
    """One connection through the proxy. `calling`: the caller's side; `serving`: the service's."""

    def __init__(self, calling: asyncio.StreamWriter, serving: asyncio.StreamWriter) -> None:
        self.calling = calling
        self.serving = serving

    def break_off(self) -> None:
        self.calling.transport.abort()
        self.serving.transport.abort()


class FaultyProxy:
    """Listens while it is entered. `address`: for callers; `service`: where it passes on to, which may be away.

    `loses_answers`: the chance that what the service answers is lost, together with its connection. `refuses`: whether
    who connects is turned away at once. `delays_s`: how long a piece of a request or an answer is kept at most.
    `taken`: how many pieces of requests it has taken, to pass them on.
    """

    def __init__(self, service: Address, chance: random.Random) -> None:
        self.loses_answers = 0.0
        self.refuses = False
        self.delays_s = 0.0
        self.taken = 0
        self.lost_answers = 0
        self._service = service
        self._chance = chance
        self._pairs: set[_Pair] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._running: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = Address(host, port)
        return self

    async def __aexit__(self, *_: tuple[type[BaseException], BaseException, TracebackType]) -> None:
        await self.close()

    async def close(self) -> None:
        self._server.close()
        self._flows.set()
        self.break_all()
        await asyncio.gather(*self._running, return_exceptions=True)

    @property
    def connections(self) -> int:
        return len(self._pairs)

    def break_all(self) -> int:
        """Every connection at once, in both directions. Gives how many there were."""
        broken = list(self._pairs)
        for pair in broken:
            pair.break_off()
        return len(broken)

    def fall_silent(self) -> None:
        """Nothing goes through any more, and no connection is closed: a cable that was pulled."""
        self._flows.clear()

    def flow_again(self) -> None:
        self._flows.set()

    async def _pass_on(self, from_caller: asyncio.StreamReader, to_caller: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "the server runs this in a task"
        self._running.add(task)
        pair = None
        try:
            if self.refuses:
                raise ConnectionRefusedError
            from_service, to_service = await asyncio.open_connection(self._service.host, self._service.port)
            pair = _Pair(to_caller, to_service)
            self._pairs.add(pair)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._requests(from_caller, to_service))
                both.create_task(self._answers(from_service, pair))
        except* OSError:
            pass  # the service is away, or a side has broken
        finally:
            self._running.discard(task)
            if pair is None:
                to_caller.transport.abort()
            else:
                self._pairs.discard(pair)
                pair.break_off()

    async def _requests(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(CHUNK_BYTES):
            self.taken += 1
            await self._keep_a_while()
            await self._flows.wait()
            sink.write(data)
            await sink.drain()
        await self._flows.wait()
        raise ConnectionResetError("the caller has ended")

    async def _answers(self, source: asyncio.StreamReader, pair: _Pair) -> None:
        while data := await source.read(CHUNK_BYTES):
            await self._keep_a_while()
            await self._flows.wait()
            if self._chance.random() < self.loses_answers:
                self.lost_answers += 1
                break
            pair.calling.write(data)
            await pair.calling.drain()
        await self._flows.wait()
        raise ConnectionResetError("the service has ended")

    async def _keep_a_while(self) -> None:
        if self.delays_s:
            await asyncio.sleep(self._chance.uniform(0, self.delays_s))
