"""One write at a time; while somebody else has the lock, one waits and the others are refused."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from coordinator_api.store.sqlite import WriteTurns
from coordinator_api.store.store_errors import StoreBusy

AT_ONCE_S = 0.0
NEVER_S = 3_600.0


@asynccontextmanager
async def at_once() -> AsyncIterator[AsyncConnection]:
    """A transaction that nobody has to wait for. No test here uses its connection."""
    yield cast("AsyncConnection", None)


async def test_should_give_turns_in_the_order_in_which_they_are_asked_for() -> None:
    turns, done = WriteTurns(at_once, NEVER_S), list[int]()

    async def write(number: int) -> None:
        async with turns.begin():
            done.append(number)
            await asyncio.sleep(0)
            assert done[-1] == number, "nobody wrote meanwhile"

    await asyncio.gather(*map(write, range(5)))

    assert done == [0, 1, 2, 3, 4]


async def test_should_pass_the_turn_of_a_caller_who_went_away() -> None:
    turns = WriteTurns(at_once, NEVER_S)

    async def write() -> str:
        async with turns.begin():
            return "written"

    async with turns.begin():
        first, second, third = (asyncio.ensure_future(write()) for _ in range(3))
        await asyncio.sleep(0)
        first.cancel()  # while it waits
        await asyncio.wait([first])
    second.cancel()  # in the moment in which it was given the turn

    assert await third == "written"
    assert first.cancelled()
    assert second.cancelled()


async def test_should_refuse_the_others_while_one_waits_for_a_lock_and_take_them_afterwards() -> None:
    locked, refused = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def begin() -> AsyncIterator[AsyncConnection]:
        locked.set()
        await refused.wait()
        async with at_once() as connection:
            yield connection

    turns = WriteTurns(begin, AT_ONCE_S)

    async def write() -> str:
        async with turns.begin():
            return "written"

    waits_for_lock = asyncio.ensure_future(write())
    await locked.wait()
    waited_for_turn = await asyncio.gather(write(), write(), return_exceptions=True)
    with pytest.raises(StoreBusy, match="locked by another program, and one write is waiting for it already"):
        await write()  # came later
    refused.set()

    assert [type(each) for each in waited_for_turn] == [StoreBusy, StoreBusy]
    assert [await waits_for_lock, await write()] == ["written", "written"]
