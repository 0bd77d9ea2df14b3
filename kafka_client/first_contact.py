"""The first word with a cluster: a wrong address is noticed while one still looks, and can be broken off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kafka_client.client_settings import ClientSettings
from kafka_client.cluster_admin import ClusterAdmin

SLOW_S = 3.0


async def first_contact(
    admin: ClusterAdmin, settings: ClientSettings, stopped: asyncio.Event, say: Callable[[str], None]
) -> bool:
    """Whether the cluster answered before it was stopped; tells when that takes long. Raises KafkaClientError."""
    notice = asyncio.get_running_loop().call_later(
        SLOW_S,
        say,
        f"Kafka at {settings.bootstrap_servers} has not answered yet; "
        f"asking for {settings.api_timeout_s:g} s at most (default.api.timeout.ms)",
    )
    asking = asyncio.ensure_future(admin.brokers())
    stopping = asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait({asking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            return False
        asking.result()
        return True
    finally:
        notice.cancel()
        asking.cancel()
        stopping.cancel()
        await asyncio.gather(asking, stopping, return_exceptions=True)
