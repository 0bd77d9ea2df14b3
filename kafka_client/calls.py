"""Retries a call to the cluster, with growing pauses, until it succeeds or `default.api.timeout.ms` has passed.

Source: `KafkaAdminClient`'s retries, `retry.backoff.ms` and `retry.backoff.max.ms`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from kafka_client.errors import KafkaRefused, KafkaUnavailable, NotNow
from kafka_client.settings.client_settings import API_TIMEOUT_MS, ClientSettings

T = TypeVar("T")


async def call(settings: ClientSettings, what: str, attempt: Callable[[], Awaitable[T]]) -> T:
    """Repeat `attempt` while it raises NotNow, and return its result. `what`: names the request in error messages.

    Raises KafkaUnavailable when the time is over, and any other error of `attempt`.
    """
    last: list[BaseException] = []

    def remember(state: RetryCallState) -> None:
        if state.outcome is not None and (error := state.outcome.exception()) is not None:
            last[:] = [error]

    async def once() -> T:
        return await attempt()

    tries = AsyncRetrying(
        retry=retry_if_exception_type(NotNow),
        wait=wait_random_exponential(
            multiplier=max(1, settings.milliseconds("retry.backoff.ms")) / 1000,
            max=max(1, settings.milliseconds("retry.backoff.max.ms")) / 1000,
        ),
        after=remember,
        sleep=asyncio.sleep,
    )
    try:
        async with asyncio.timeout(settings.api_timeout_s):
            return await tries(once)
    except TimeoutError:
        reason = f"; last error: {last[0]}" if last else ""
        raise KafkaUnavailable(
            f"Kafka at {settings.bootstrap_servers}: {what}: no answer within {settings.api_timeout_s:g} s "
            f"({API_TIMEOUT_MS}){reason}; check the address, security.protocol, and that the brokers run"
        ) from None
    except KafkaRefused as error:
        message = f"Kafka at {settings.bootstrap_servers}: {what}: {error}"
        raise type(error)(message, error.code) from error.__cause__
