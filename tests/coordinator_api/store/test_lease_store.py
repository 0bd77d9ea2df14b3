"""Who owns which group, on a real PostgreSQL: each change is made for one caller, and only of what is as he saw it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from coordinator_api.settings import Settings
from coordinator_api.store import schema
from coordinator_api.store.engine import POOL_SIZE
from coordinator_api.store.lease_rows import CoordinatorRow, GroupOwner, LeaseStore, LeaseView
from coordinator_api.store.opening import open_store
from coordinator_api.store.repository import Repository
from coordinator_api.store.store_errors import StoreError, UnusableDatabase
from tests.coordinator_api.store.databases import open_engine, open_repository
from tests.coordinator_api.store.postgresql import Postgresql
from tests.known import known
from tests.waiting import wait_until


class Process(NamedTuple):
    """What one coordinator has of the database."""

    owners: LeaseStore
    log: Repository


@asynccontextmanager
async def process(settings: Settings) -> AsyncIterator[Process]:
    async with open_store(settings) as opened:
        yield Process(opened.lease_store, opened.repository)


@pytest.fixture
async def here(on_postgresql: Settings) -> AsyncIterator[Process]:
    async with process(on_postgresql) as opened:
        yield opened


async def entered(process: Process, *names: str) -> None:
    for name in names:
        await process.owners.enter(name, f"http://{name}:1", "0.1")


def writing(process: Process) -> AbstractAsyncContextManager[AsyncConnection]:
    """A transaction of its, as for a write of a group."""
    assert isinstance(process.log, Repository)
    return process.log._begin()


@asynccontextmanager
async def other_program(settings: Settings) -> AsyncIterator[AsyncConnection]:
    async with open_engine(settings) as engine, engine.connect() as connection:
        yield connection


async def end_all_connections(settings: Settings) -> None:
    """As a restart of the database does. Returns once the operating system has closed them."""
    others = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    async with other_program(settings) as connection:
        ended = (await connection.execute(text(f"SELECT pid, pg_terminate_backend(pid) FROM ({others}) AS each"))).all()
    assert ended
    for pid, _ in ended:
        await asyncio.to_thread(wait_until, lambda: not Path(f"/proc/{pid}").exists(), "its end")  # noqa: B023


async def polled(process: Process, name: str, *, takes: bool = True, renews: bool = True) -> LeaseView:
    return known(await process.owners.poll(name, takes=takes, renews=renews))


async def groups(process: Process, asked_by: str) -> dict[str, GroupOwner]:
    return dict((await polled(process, asked_by)).groups)


async def test_should_see_all_rows_in_a_poll_and_renew_the_own_one(on_postgresql: Settings) -> None:
    async with process(on_postgresql) as here, process(on_postgresql) as there:
        await entered(here, "a")
        await there.owners.enter("b", "http://b:1", "0.2")
        here.log.owned_by("a")
        await here.log.append("orders", 0, ["{}"], epoch=1, members=3)

        first, second, other = await polled(here, "a"), await polled(here, "a"), await polled(there, "b")

    assert first.coordinators == {
        "a": CoordinatorRow("a", "http://a:1", 1, "0.1"),
        "b": CoordinatorRow("b", "http://b:1", 0, "0.2", takes=False),
    }
    assert second.coordinators["a"].renewals == 2
    assert (other.coordinators["a"].renewals, other.coordinators["b"].renewals) == (2, 1)
    assert first.groups == other.groups == {"orders": GroupOwner("orders", "a", 1, 3)}


async def test_should_say_in_a_poll_whether_it_is_to_be_given_groups(on_postgresql: Settings) -> None:
    async with process(on_postgresql) as here, process(on_postgresql) as there:
        await entered(here, "a")
        await entered(there, "b")
        said = []
        for takes in (False, True, False):
            mine, theirs = await polled(here, "a", takes=takes), await polled(there, "b")
            said.append((mine.coordinators["a"].takes, theirs.coordinators["a"].takes))

    assert said == [(False, False), (True, True), (False, False)]


async def test_should_look_at_the_rows_without_renewing_its_own(here: Process) -> None:
    await entered(here, "a")
    renewed = await polled(here, "a")
    looked = await polled(here, "a", takes=False, renews=False)

    assert looked.coordinators == {"a": renewed.coordinators["a"]._replace(takes=False)}


async def test_should_see_each_change_of_a_group_at_the_next_poll(here: Process) -> None:
    await entered(here, "a", "b")
    here.log.owned_by("a")
    seen = [await groups(here, "a")]
    await here.log.append("g", 0, ["{}"], epoch=1)
    seen.append(await groups(here, "a"))
    await here.log.append("g", 1, ["{}"], epoch=1)
    seen.append(await groups(here, "a"))
    await here.log.append("g", 2, ["{}"], epoch=1, members=2)
    seen.append(await groups(here, "a"))
    await here.owners.hand_over("g", 1, "a", "b")
    await here.log.append("a", 0, ["{}"], epoch=1)  # a group of the name of a coordinator
    seen.append(await groups(here, "a"))
    await here.log.delete("a", 1, epoch=1)
    seen.append(await groups(here, "b"))
    here.log.owned_by("b")
    await here.log.delete("g", 3, epoch=2)
    seen.append(await groups(here, "a"))

    made, grown, given = GroupOwner("g", "a", 1, 0), GroupOwner("g", "a", 1, 2), GroupOwner("g", "b", 2, 2)
    assert seen == [
        {},
        {"g": made},
        {"g": made},
        {"g": grown},
        {"g": given, "a": GroupOwner("a", "a", 1, 0)},
        {"g": given},
        {},
    ]


async def test_should_see_nothing_when_the_own_row_is_gone(here: Process) -> None:
    await entered(here, "a")
    await here.owners.leave("a")

    assert await here.owners.poll("a") is None
    assert await here.owners.poll("nobody") is None


async def test_should_take_an_id_once(here: Process) -> None:
    await entered(here, "a")
    with pytest.raises(StoreError):
        await here.owners.enter("a", "http://a:2", "0.1")
    assert await here.owners.poll("a") is not None, "it goes on after that"


async def test_should_end_a_coordinator_only_if_it_has_not_renewed_its_row(here: Process) -> None:
    await entered(here, "a")
    await here.owners.poll("a")

    assert not await here.owners.end("a", 0)
    assert await here.owners.end("a", 1)
    assert not await here.owners.end("a", 1), "it has no row now"
    assert await here.owners.poll("a") is None


async def test_should_take_a_group_that_nobody_owns_once(on_postgresql: Settings) -> None:
    async with process(on_postgresql) as here, process(on_postgresql) as there:
        await here.log.append("free", 0, ["{}"], epoch=0)
        for one, name in ((here, "a"), (there, "b")):
            await one.owners.enter(name, "http://h:1", "0.1")

        taken = await asyncio.gather(here.owners.take("free", None, 0, "a"), there.owners.take("free", None, 0, "b"))

        assert set(taken) == {None, 1}
        assert await groups(here, "a") == {"free": GroupOwner("free", "ab"[taken.index(1)], 1)}


async def test_should_take_a_group_whose_owner_is_over_and_no_other(here: Process) -> None:
    await entered(here, "a", "b")
    here.log.owned_by("a")
    await here.log.append("g", 0, ["{}"], epoch=1)

    assert not await here.owners.take("g", "a", 1, "b"), "a lives"
    await here.owners.end("a", 0)
    for owner, epoch, by in (("a", 0, "b"), ("a", 2, "b"), (None, 1, "b"), ("c", 1, "b"), ("a", 1, "c")):
        assert not await here.owners.take("g", owner, epoch, by), (owner, epoch, by)
    assert not await here.owners.take("nothing", "a", 1, "b")
    assert await here.owners.take("g", "a", 1, "b")

    assert await groups(here, "b") == {"g": GroupOwner("g", "b", 2)}


async def test_should_not_wait_for_whoever_is_writing_the_group(on_postgresql: Settings) -> None:
    async with process(on_postgresql) as here:
        await here.log.append("g", 0, ["{}"], epoch=0)
        await entered(here, "a")
        async with other_program(on_postgresql) as former_owner:
            await former_owner.execute(text("UPDATE groups SET sequence = 7"))

            assert not await here.owners.take("g", None, 0, "a")
        assert await here.owners.take("g", None, 0, "a")


async def test_should_take_a_group_from_one_that_stands_still_in_the_middle_of_a_write(on_postgresql: Settings) -> None:
    """The database ends its transaction, and with that its lock."""
    quick = on_postgresql.model_copy(update={"lease_timeout_ms": 600})
    async with process(quick) as former, process(quick) as here, open_repository(quick) as onlooker:
        await onlooker.append("g", 0, ["{}"], epoch=0)
        await entered(here, "a")

        async def write_in_the_midst_of_which_it_is_taken() -> None:
            async with writing(former) as stands_still:
                await stands_still.execute(update(schema.groups).values(sequence=7))
                while not await here.owners.take("g", None, 0, "a"):
                    await here.owners.poll("a")

        with pytest.raises(DBAPIError):
            await write_in_the_midst_of_which_it_is_taken()

        assert (await onlooker.load_group("g")).sequence == 1


async def test_should_renew_while_all_connections_of_writers_wait(on_postgresql: Settings) -> None:
    async with process(on_postgresql) as here, other_program(on_postgresql) as locks:
        await entered(here, "a")
        group_ids = [f"g{number}" for number in range(POOL_SIZE + 1)]
        for group_id in group_ids:
            await here.log.append(group_id, 0, ["{}"], epoch=0)
        await locks.execute(update(schema.groups).values(members=1))
        waiting = [asyncio.ensure_future(here.log.append(each, 1, ["{}"], epoch=0)) for each in group_ids]
        while await waiting_for_locks(locks) < POOL_SIZE:
            pass

        assert await here.owners.poll("a") is not None
        assert not any(each.done() for each in waiting)
        await locks.rollback()
        await asyncio.gather(*waiting)


async def test_should_let_a_write_take_longer_than_the_lease(on_postgresql: Settings) -> None:
    quick = on_postgresql.model_copy(update={"lease_timeout_ms": 600})
    async with process(quick) as here, writing(here) as connection:
        assert (await connection.execute(text("SELECT 1 FROM pg_sleep(0.7)"))).scalar_one() == 1


async def test_should_end_a_write_after_the_time_for_statements(on_postgresql: Settings) -> None:
    hasty = on_postgresql.model_copy(update={"database_statement_timeout_ms": 200})
    async with process(hasty) as here:
        # the database and the driver have the same deadline: either can be the first to end the statement
        with pytest.raises((DBAPIError, TimeoutError)):
            async with writing(here) as connection:
                await connection.execute(text("SELECT pg_sleep(60)"))


async def waiting_for_locks(connection: AsyncConnection) -> int:
    """How many connections to the database do."""
    wait = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    await connection.execute(text("SELECT pg_stat_clear_snapshot()"))
    return int((await connection.execute(text(wait))).scalar_one())


async def test_should_hand_a_group_over_to_one_who_lives(here: Process) -> None:
    await entered(here, "a", "b")
    here.log.owned_by("a")
    await here.log.append("g", 0, ["{}"], epoch=1)

    for epoch, by, to in ((0, "a", "b"), (2, "a", "b"), (1, "b", "a"), (1, "a", "c")):
        assert not await here.owners.hand_over("g", epoch, by, to), (epoch, by, to)
    assert await here.owners.hand_over("g", 1, "a", "b")
    assert not await here.owners.hand_over("g", 1, "a", "b")

    assert await groups(here, "a") == {"g": GroupOwner("g", "b", 2)}


async def test_should_leave_what_it_owned_to_the_others_at_once(here: Process) -> None:
    await entered(here, "a", "b")
    here.log.owned_by("a")
    await here.log.append("g", 0, ["{}"], epoch=1)

    await here.owners.leave("a")

    assert await here.owners.take("g", "a", 1, "b")


# --- one lease for all


async def test_should_refuse_another_lease_while_a_coordinator_lives(on_postgresql: Settings) -> None:
    quick = on_postgresql.model_copy(update={"lease_timeout_ms": 600})
    quicker = on_postgresql.model_copy(update={"lease_timeout_ms": 601})
    async with process(quick) as here, process(quicker) as there:
        await entered(here, "a")

        async def live() -> None:
            while True:
                await here.owners.poll("a")
                await asyncio.sleep(0.01)

        living = asyncio.ensure_future(live())
        with pytest.raises(UnusableDatabase, match="is 601 here, and 600 at the coordinator http://a:1 of the same"):
            await entered(there, "b")
        living.cancel()
        await asyncio.wait((living,))
        assert await there.owners.poll("b") is None, "nothing is left of it"

        await entered(there, "b")  # the other one is dead, and has left its row
        assert await there.owners.poll("b") is not None


# --- a database that fails


async def test_should_give_up_a_silent_database_and_go_on(postgresql: Postgresql, on_postgresql: Settings) -> None:
    hasty = on_postgresql.model_copy(update={"lease_timeout_ms": 600, "database_statement_timeout_ms": 500})
    async with process(hasty) as here:
        await entered(here, "a")
        await here.log.append("g", 0, ["{}"], epoch=0)
        with postgresql.frozen():
            for _ in range(2):  # on the old connection, and on a new one
                with pytest.raises(StoreError):
                    await here.owners.poll("a")
                with pytest.raises(StoreError):
                    await here.log.load_group("g")
                with pytest.raises(StoreError):
                    await here.log.append("g", 1, ["{}"], epoch=0)

        assert (await here.log.load_group("g")).sequence in (1, 2, 3)
        assert (await polled(here, "a")).coordinators["a"].renewals in (1, 2, 3)


async def test_should_notice_nothing_of_a_restart_of_the_database_afterwards(on_postgresql: Settings) -> None:
    async with process(on_postgresql) as here:
        await entered(here, "a")
        # as many connections as there may be
        await asyncio.gather(*(here.log.append(f"g{number}", 0, ["{}"], epoch=0) for number in range(20)))
        await end_all_connections(on_postgresql)

        assert await here.owners.poll("a") is not None
        await asyncio.gather(*(here.log.append(f"g{number}", 1, ["{}"], epoch=0) for number in range(20)))
