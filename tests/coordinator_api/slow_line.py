"""A TCP proxy on loopback that delivers what a server answers some time after it was sent."""

import asyncio
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

CHUNK_BYTES = 65_536
LONGEST_END_S = 30.0


class SlowLine:
    """Runs while it is entered, on a thread of its own. `delay_s`: how late each answer is delivered from now on."""

    def __init__(self, port: int) -> None:
        self.delay_s = 0.0
        self.port = 0
        self._server_port = port
        self._loop = asyncio.new_event_loop()
        self._listens = threading.Event()
        self._ends = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listens.wait(LONGEST_END_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._ends.set)
        self._thread.join(LONGEST_END_S)
        self._loop.close()

    async def _serve(self) -> None:
        connections: set[asyncio.Task[None]] = set()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = self._loop.create_task(self._carry(reader, writer))
            connections.add(connection)
            connection.add_done_callback(connections.discard)

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._listens.set()
        await self._ends.wait()
        server.close()
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._server_port)
        answers: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        try:
            async with asyncio.TaskGroup() as both_ways:
                both_ways.create_task(self._questions(reader, to_server))
                both_ways.create_task(self._answers(from_server, answers))
                both_ways.create_task(self._deliver(answers, writer))
        except* OSError:
            pass
        finally:
            for one in (writer, to_server):
                one.close()
                with suppress(OSError):
                    await one.wait_closed()

    async def _questions(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()

    async def _answers(self, reader: asyncio.StreamReader, answers: asyncio.Queue[tuple[float, bytes]]) -> None:
        chunk = b" "
        while chunk:
            chunk = await reader.read(CHUNK_BYTES)
            answers.put_nowait((self._loop.time() + self.delay_s, chunk))

    async def _deliver(self, answers: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        while True:
            due_s, chunk = await answers.get()
            await asyncio.sleep(due_s - self._loop.time())
            if not chunk:
                writer.write_eof()
                return
            writer.write(chunk)
            await writer.drain()
