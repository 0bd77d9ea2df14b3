"""How long a connection to PostgreSQL is waited for, and which ones are given up.

Rules:
- A database that says nothing any more is a broken connection: nobody waits for it to answer to a rollback.
- A connection that the database has closed is not used again, so a restart of the database shows nowhere afterwards.
  This is noticed without asking the database, which would take longer than the write.
- A transaction that its client does not go on with is ended by the database, so that no lock outlives its coordinator.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine

from coordinator_api.store.lease_rows import LeaseTimes

POOL_SIZE = 10
"""How many groups a coordinator writes at one time. PostgreSQL takes 100 connections, unless somebody changed that."""


class Deadlines(NamedTuple):
    """Seconds. `connect_s`: to connect. `statement_s`: to answer a statement. `idle_s`: how long a transaction may
    stand still between two statements; None for as long as it likes.
    """

    connect_s: float
    statement_s: float
    idle_s: float | None = None


OF_COMMANDS = Deadlines(10, 30)
"""asyncpg waits a minute for whoever listens there and is no PostgreSQL, and for ever for a database that says nothing
any more.
"""


def of_service(statement_timeout_ms: int, times: LeaseTimes) -> Deadlines:
    """For reads and writes of groups. A transaction that stands still for as long as its coordinator may answer without
    a renewal is ended before another coordinator takes its group.
    """
    statement_s = statement_timeout_ms / 1000
    return Deadlines(statement_s, statement_s, times.valid_ms / 1000)


def of_lease(statement_timeout_ms: int, times: LeaseTimes) -> Deadlines:
    """For polls. One that is lost, and one that takes its place, both end before the lease does. With answers that come
    later, renewals one after the other would leave gaps in which nothing may be answered. To connect takes several
    round trips, so it has the time of a statement of the service.
    """
    return Deadlines(statement_timeout_ms / 1000, times.valid_ms / 2000)


def connect_args(patience: Deadlines) -> dict[str, Any]:
    """For the driver."""
    return {"timeout": patience.connect_s, "command_timeout": patience.statement_s}


def watch(engine: AsyncEngine, patience: Deadlines) -> None:
    """Keep the rules for every connection that the engine makes from now on."""
    limits = {"statement_timeout": patience.statement_s, "idle_in_transaction_session_timeout": patience.idle_s}
    # by statements: a pooler between here and the database refuses them as parameters of the connection
    settings = "; ".join(f"SET {name} = {round(value * 1000)}" for name, value in limits.items() if value is not None)

    def limit(connection: Any, _record: object) -> None:
        connection.run_async(lambda driver: driver.execute(settings))

    def refuse_a_closed_one(connection: Any, _record: object, _proxy: object) -> None:
        if connection.driver_connection.is_closed():
            raise DisconnectionError("the database closed the connection")

    event.listen(engine.sync_engine, "connect", limit)
    event.listen(engine.sync_engine, "checkout", refuse_a_closed_one)
    event.listen(engine.sync_engine, "handle_error", _give_up_a_silent_one)


def _give_up_a_silent_one(context: ExceptionContext) -> None:
    """Also every other connection that was made before: each of them would be waited for as long."""
    connection = context.connection
    if isinstance(context.original_exception, TimeoutError) and connection is not None and not connection.invalidated:
        driver: Any = connection.connection.driver_connection
        driver.terminate()
        context.is_disconnect = True
