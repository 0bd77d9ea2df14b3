"""A proxy of its own for every client of a run, all on one event loop in a thread. Any thread may call."""

import asyncio
import random
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Self
from urllib.parse import urlsplit

from tests.acceptance.fleet.faulty_proxy import FaultyProxy
from tests.acceptance.fleet.http_connection import Address
from tests.known import known

_TIMEOUT_S = 60.0


class Proxies:
    """Open while it is entered. `url`: of the service, which may be away at times."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._service = Address(known(parts.hostname), known(parts.port))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._proxies: dict[str, FaultyProxy] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for proxy in self._proxies.values():
            asyncio.run_coroutine_threadsafe(proxy.close(), self._loop).result(_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_TIMEOUT_S)

    def add(self, name: str, chance: random.Random) -> str:
        """A new proxy; its URL."""
        proxy = FaultyProxy(self._service, chance)
        opened = asyncio.run_coroutine_threadsafe(proxy.__aenter__(), self._loop)
        opened.result(_TIMEOUT_S)
        self._proxies[name] = proxy
        return f"http://{proxy.address.host}:{proxy.address.port}"

    @property
    def names(self) -> list[str]:
        return list(self._proxies)

    def taken(self, name: str) -> int:
        """How many pieces of requests it has taken so far."""
        return self._proxies[name].taken

    def change(self, name: str, change: Callable[[FaultyProxy], object]) -> None:
        """Carry out `change`, on the loop, and wait until it is done."""
        done: Future[None] = Future()

        def carry_out() -> None:
            change(self._proxies[name])
            done.set_result(None)

        self._loop.call_soon_threadsafe(carry_out)
        done.result(_TIMEOUT_S)
