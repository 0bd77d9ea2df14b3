"""`assignor migrate`: the schema brought up to date while no coordinator uses the database."""

from __future__ import annotations

from coordinator_api.settings import Settings
from coordinator_api.store import leases, schema
from coordinator_api.store.engine import create_engine


async def migrate(settings: Settings) -> tuple[str | None, str]:
    """The version before and after. Raises StoreError, StoreInUse while a coordinator runs on the database."""
    engine = create_engine(settings)
    try:
        async with await leases.acquire(engine):
            return await schema.upgrade(engine)
    finally:
        await engine.dispose()
