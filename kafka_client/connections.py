"""Connections to the brokers of one cluster. A connection is opened when a request needs it. Each error gives the
reason for the failure.

Rules: a request that any broker can answer uses an open connection. If no connection is open, the client tries the
brokers in the newest metadata, and then the bootstrap servers. So the client finds the cluster even after all its
brokers have moved to other addresses. A failure that no retry can fix (credentials, certificates) raises KafkaRefused.
A failure that may pass (nothing listens, the connection is lost, the broker is too slow) raises NotNow. This package
uses aiokafka's connections, but not aiokafka's client. That client hides the reasons of failures and never returns to
the bootstrap servers. If no caller closes a connection, it is closed when its `Connections` object is
garbage-collected. At the latest, the connection is closed when the program ends. Short scripts often do not close their
connections.
"""

import asyncio
import atexit
import concurrent.futures
import os
import random
import ssl
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from aiokafka.conn import AIOKafkaConnection, CloseReason, create_conn
from aiokafka.errors import (
    IllegalSaslStateError,
    IncompatibleBrokerVersion,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from kafka_client.errors import KafkaRefused, KafkaUnavailable, NotNow
from kafka_client.settings.client_settings import API_TIMEOUT_MS, ClientSettings

T = TypeVar("T")
Address = tuple[str, int]

_LONGEST_END_S = 1.0
"""When the program ends, it waits at most this long for its open connections to close."""


async def call(settings: ClientSettings, what: str, attempt: Callable[[], Awaitable[T]]) -> T:
    """Calls the function `attempt`, and calls it again after a pause if it raises NotNow. Each pause is longer than the
    pause before it. Returns the result of `attempt`. `what`: the name of the request in error messages. Raises
    KafkaUnavailable after `default.api.timeout.ms`. If `attempt` raises any error other than NotNow, this error is
    raised without a retry.

    Source: `KafkaAdminClient`'s retries, `retry.backoff.ms` and `retry.backoff.max.ms`.
    """
    last: NotNow | None = None

    async def once() -> T:
        nonlocal last
        try:
            return await attempt()
        except NotNow as error:
            last = error
            raise

    least_s, most_s = (max(1, settings.milliseconds(f"retry.backoff.{each}")) / 1000 for each in ("ms", "max.ms"))
    tries = AsyncRetrying(
        retry=retry_if_exception_type(NotNow),
        wait=wait_random_exponential(multiplier=least_s, max=most_s),
        sleep=asyncio.sleep,
    )
    where = f"Kafka at {settings.bootstrap_servers}: {what}"
    try:
        async with asyncio.timeout(settings.api_timeout_s):
            return await tries(once)
    except TimeoutError:
        reason = "" if last is None else f"; last error: {last}"
        raise KafkaUnavailable(
            f"{where}: no answer within {settings.api_timeout_s:g} s ({API_TIMEOUT_MS}){reason}; check the address, "
            "security.protocol, and that the brokers run"
        ) from None
    except KafkaRefused as error:
        raise type(error)(f"{where}: {error}", error.code) from error.__cause__


class Connections:
    """The connections to one cluster. A `Connections` object belongs to one event loop at a time. If another loop uses
    the object, for example after a fork, the object drops its connections and opens new ones.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self.cluster_id: str | None = None
        """The id of the cluster; None until a broker has returned metadata."""
        self._settings = settings
        self._brokers: dict[int, Address] = {}
        self._open: dict[Address, AIOKafkaConnection] = {}
        self._locks: dict[Address, asyncio.Lock] = {}
        self._arguments: dict[str, Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process_id = os.getpid()
        self._when_collected: weakref.finalize[..., Connections] | None = None

    def set_cluster(self, cluster_id: str | None, brokers: Mapping[int, Address]) -> None:
        """Replaces the known brokers by the brokers of the newest metadata. `cluster_id`: the id of the cluster in this
        metadata.
        """
        self.cluster_id = cluster_id
        self._brokers = dict(brokers)

    def add_broker(self, node_id: int, address: Address) -> None:
        """Adds a broker that was named in an answer. The metadata may not contain this broker yet."""
        self._brokers[node_id] = address

    async def send(self, request: Any, node_id: int | None = None) -> Any:
        """Sends a request to a broker and returns the answer. `node_id`: the id of the broker; None for any broker.
        Raises NotNow, KafkaRefused.
        """
        self._follow_loop()
        if node_id is None:
            address, connection = await self._any()
        elif node_id in self._brokers:
            address = self._brokers[node_id]
            connection = await self._to(address)
        else:
            raise NotNow(f"broker {node_id} is not known yet")
        try:
            return await connection.send(request)
        except TimeoutError:
            connection.close(reason=CloseReason.CONNECTION_TIMEOUT)
            raise NotNow(f"{_text(address)} did not answer within request.timeout.ms") from None
        except (OSError, KafkaError, NotImplementedError) as error:
            raise _reason(address, error) from error

    async def close(self) -> None:
        self._follow_loop()
        closing = [connection.close(reason=CloseReason.SHUTDOWN) for connection in self._open.values()]
        self._open.clear()
        await asyncio.gather(*[each for each in closing if each is not None], return_exceptions=True)

    async def _any(self) -> tuple[Address, AIOKafkaConnection]:
        failure: NotNow | None = None
        for address in self._candidates():
            try:
                return address, await self._to(address)
            except NotNow as error:
                failure = error
        assert failure is not None, "there is at least one bootstrap server"
        raise failure

    def _candidates(self) -> Iterable[Address]:
        is_open = [address for address, connection in self._open.items() if connection.connected()]
        known = list(self._brokers.values())
        random.shuffle(known)
        return dict.fromkeys((*is_open, *known, *self._settings.addresses))

    async def _to(self, address: Address) -> AIOKafkaConnection:
        async with self._locks.setdefault(address, asyncio.Lock()):
            connection = self._open.get(address)
            if connection is not None and connection.connected():
                return connection
            self._open.pop(address, None)
            setup_s = self._settings.milliseconds("socket.connection.setup.timeout.ms") / 1000
            try:
                # `connection_arguments` runs in a thread, because it reads files, and because loading the system's
                # certificates is slow
                if self._arguments is None:
                    self._arguments = await asyncio.to_thread(self._settings.connection_arguments)
                async with asyncio.timeout(setup_s):
                    connection = await create_conn(
                        *address, max_idle_ms=self._settings.milliseconds("connections.max.idle.ms"), **self._arguments
                    )
            except TimeoutError:
                raise NotNow(f"{_text(address)} did not accept a connection within {setup_s:g} s") from None
            except (OSError, KafkaError, NotImplementedError) as error:
                # the next connection reads the key and trust stores again, because they may then contain renewed
                # certificates
                self._arguments = None
                raise _reason(address, error) from error
            self._open[address] = connection
            return connection

    def _follow_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        if self._process_id != os.getpid():
            _OF_A_PARENT.extend(self._open.values())
        self._open, self._locks, self._loop, self._process_id = {}, {}, loop, os.getpid()
        if self._when_collected is not None:
            self._when_collected.detach()
        self._when_collected = weakref.finalize(self, _close_later, self._open, loop, self._process_id)
        self._when_collected.atexit = False  # `_close_at_exit` closes the connections, and waits until they are closed
        _used.add(self)


# After a fork, the child process keeps its parent's connections in this list forever. If the child freed a connection,
# the connection would be closed for the parent too.
_OF_A_PARENT: list[AIOKafkaConnection] = []

_used: weakref.WeakSet[Connections] = weakref.WeakSet()
_closing: set[concurrent.futures.Future[None]] = set()


def _close_later(opened: dict[Address, AIOKafkaConnection], loop: asyncio.AbstractEventLoop, process_id: int) -> None:
    """Asks the event loop of the connections to close them. The function does not wait for the loop, because the
    garbage collector may call the function in any thread.
    """
    left = list(opened.values())
    opened.clear()
    if process_id != os.getpid():
        _OF_A_PARENT.extend(left)
    elif left and loop.is_running():
        future = asyncio.run_coroutine_threadsafe(_close_all(left), loop)
        _closing.add(future)
        future.add_done_callback(_closing.discard)


async def _close_all(left: list[AIOKafkaConnection]) -> None:
    for connection in left:
        connection.close(reason=CloseReason.SHUTDOWN)


@atexit.register
def _close_at_exit() -> None:
    for each in list(_used):  # weakref runs no finalizers after this point of the program's exit
        if each._loop is not None:
            _close_later(each._open, each._loop, each._process_id)
    concurrent.futures.wait(list(_closing), _LONGEST_END_S)


def _reason(address: Address, error: BaseException) -> NotNow | KafkaRefused:
    """Converts an error of aiokafka to an error of this package. For a KafkaConnectionError, the cause of the error
    determines the result.
    """
    where, cause = _text(address), error
    while isinstance(cause, KafkaConnectionError) and cause.__cause__ is not None:
        cause = cause.__cause__
    match cause:
        case UnsupportedSaslMechanismError():
            return KafkaRefused(f"{where} does not support this SASL mechanism: check sasl.mechanism")
        case IllegalSaslStateError():
            return KafkaRefused(f"{where} does not expect a SASL login: check security.protocol")
        case SaslAuthenticationFailed():
            return KafkaRefused(
                f"{where} does not accept these credentials ({_error_text(cause)}): "
                "check security.protocol, sasl.mechanism and sasl.jaas.config"
            )
        case ssl.SSLCertVerificationError():
            return KafkaRefused(
                f"{where} has a certificate that is not trusted ({cause.verify_message}): "
                "check ssl.truststore.location, and for its name ssl.endpoint.identification.algorithm"
            )
        case ssl.SSLEOFError() | ssl.SSLZeroReturnError() | ssl.SSLSyscallError():
            return NotNow(f"{where} closed the connection")
        case ssl.SSLError():
            return KafkaRefused(
                f"TLS with {where} failed ({cause.reason or cause}): check security.protocol, ssl.keystore.* and "
                "ssl.enabled.protocols"
            )
        case IncompatibleBrokerVersion() | NotImplementedError():
            return KafkaRefused(f"{where} runs a version that does not know this request: {cause}; use a newer broker")
        case ConnectionRefusedError():
            return NotNow(f"nothing listens on {where}")
        case EOFError() | ConnectionError():
            return NotNow(f"{where} closed the connection")
        case OSError():
            return NotNow(f"{where}: {cause.strerror or cause}")
    return NotNow(f"{where}: {_error_text(cause)}")


def _text(address: Address) -> str:
    return f"{address[0]}:{address[1]}"


def _error_text(error: BaseException) -> str:
    """Returns the broker's text of the error, or the name of the error's class if the broker sent no text. `str(error)`
    is not used, because it also contains the name and the number of the error in aiokafka.
    """
    text = next((argument for argument in error.args if isinstance(argument, str)), "")
    return text or type(error).__name__
