"""The rim around the holder: groups open and close as the rows say, and nothing is answered without a lease."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

import pytest

from coordinator_api.errors import GroupIsLoading
from coordinator_api.lease import coordinator_lease
from coordinator_api.lease.coordinator_lease import CoordinatorLease
from coordinator_api.lease.decisions import Elsewhere, Here, NoSuchGroup
from coordinator_api.lease.owned_groups import HANDED_OVER_AT_ONE_TIME, OtherGroup
from coordinator_api.metrics import Metrics
from coordinator_api.store.lease_rows import GroupOwner, LeaseStore, LeaseView, lease_times
from coordinator_api.store.lease_store import FileLeaseStore
from coordinator_api.store.store_errors import LeaseEnded, StoreError
from tests.coordinator_api.lease.table import InMemoryLeaseStore, LeaseTable
from tests.known import known

TIMES = lease_times(600)
WAIT_S = 30.0


class Groups:
    """What is open, and what was asked for. `opens`: waited for before a group opens; `there`: the store has them."""

    def __init__(self) -> None:
        self.epochs: dict[str, int] = {}
        self.done: list[str] = []
        self.opens = asyncio.Event()
        self.opens.set()
        self.missing: set[str] = set()
        self.fails = 0

    async def open_owned(self, group_id: str, epoch: int) -> bool:
        await self.opens.wait()
        if self.fails:
            self.fails -= 1
            raise StoreError("it cannot be read for now")
        if group_id in self.missing:
            return False
        self.epochs[group_id] = epoch
        self.done.append(f"open {group_id} {epoch}")
        return True

    def is_open(self, group_id: str) -> bool:
        return group_id in self.epochs

    async def close_owned(self, group_id: str) -> Callable[[], None] | None:
        if self.epochs.pop(group_id, None) is None:
            return None
        self.done.append(f"close {group_id}")
        return lambda: self.done.append(f"release {group_id}")

    def lose(self, group_id: str) -> None:
        if self.epochs.pop(group_id, None) is not None:
            self.done.append(f"lose {group_id}")

    def at_rest(self) -> Collection[str]:
        return list(self.epochs)

    def read_again(self) -> None:
        self.done.append("read again")

    def answer_now(self) -> None:
        self.done.append("let go")


class UnsteadyStore(InMemoryLeaseStore):
    """`is_away`: it answers nobody."""

    is_away = False

    async def poll(self, coordinator_id: str, *, takes: bool = True, renews: bool = True) -> LeaseView | None:
        if self.is_away:
            raise StoreError("the database does not answer")
        return await super().poll(coordinator_id, takes=takes, renews=renews)


class Rim:
    """One coordinator."""

    def __init__(self, table: LeaseTable, url: str, lease_store: LeaseStore | None = None) -> None:
        self.groups = Groups()
        self.metrics = Metrics()
        self.store = UnsteadyStore(table, TIMES)
        self.lease = CoordinatorLease(lease_store or self.store, url, "1", self.groups, self.metrics)

    def measured(self, name: str) -> float:
        return known(self.metrics.registry.get_sample_value(name))


@asynccontextmanager
async def started(table: LeaseTable, url: str = "http://a") -> AsyncIterator[Rim]:
    rim = Rim(table, url)
    await rim.lease.start()
    rim.lease.serves()
    try:
        yield rim
    finally:
        await rim.lease.leave()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not holds():  # noqa: ASYNC110 -- polls go on by themselves, and tell nobody
            await asyncio.sleep(0.005)


def with_free_groups(*group_ids: str) -> LeaseTable:
    table = LeaseTable()
    table.groups = {each: GroupOwner(each, None, 4) for each in group_ids}
    return table


async def test_should_open_what_nobody_has_before_it_has_started() -> None:
    table = with_free_groups("g", "h")
    async with started(table) as rim:
        assert rim.groups.epochs == {"g": 5, "h": 5}
        assert {each.owner for each in table.groups.values()} == set(rim.store.ids)
        assert await rim.lease.located("g") == Here(5)
        assert await rim.lease.located("nobody") == NoSuchGroup()
        assert rim.measured("assignor_takeover_total") == 2
    assert table.coordinators == {}


async def test_should_count_no_takeover_where_no_other_coordinator_can_have_had_a_group() -> None:
    async def group_ids() -> list[str]:
        return ["g", "h"]

    rim = Rim(LeaseTable(), "http://a", FileLeaseStore(group_ids))
    await rim.lease.start()

    assert rim.groups.epochs == {"g": 0, "h": 0}
    assert rim.measured("assignor_takeover_total") == 0
    await rim.lease.leave()


async def test_should_give_a_group_for_balance_and_say_where_it_is() -> None:
    table = with_free_groups("g", "h")
    async with started(table, "http://a") as first, started(table, "http://b") as second:
        await until(lambda: len(second.groups.epochs) == 1)
        (moved,) = second.groups.epochs
        (stayed,) = first.groups.epochs

        assert second.groups.epochs[moved] > 5
        assert first.groups.done[-2:] == [f"close {moved}", f"release {moved}"]
        assert await first.lease.located(moved) == Elsewhere("http://b")
        assert await second.lease.located(stayed) == Elsewhere("http://a")
        assert first.lease.elsewhere() == [OtherGroup(moved, "http://b", 0)]
        assert first.measured("assignor_hand_over_total") == 1


async def test_should_wait_for_a_group_that_is_being_opened() -> None:
    table = with_free_groups()
    async with started(table) as rim:
        rim.groups.opens.clear()
        table.groups["g"] = GroupOwner("g", None, 0)
        asked = asyncio.ensure_future(rim.lease.located("g"))
        await until(lambda: table.groups["g"].owner is not None)
        assert not asked.done()
        rim.groups.opens.set()

        assert await asked == Here(1)


async def test_should_say_after_a_while_that_nobody_has_a_group_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_lease, "LONGEST_OPENING_WAIT_S", 0.2)
    table = with_free_groups()
    async with started(table) as rim:
        rim.groups.opens.clear()
        table.groups["g"] = GroupOwner("g", None, 0)
        with pytest.raises(GroupIsLoading, match="group g is being taken over"):
            await rim.lease.located("g")
        rim.groups.opens.set()


async def test_should_try_again_to_open_what_could_not_be_read() -> None:
    table = with_free_groups("g")
    rim = Rim(table, "http://a")
    rim.groups.fails = 2
    await rim.lease.start()

    await until(lambda: rim.groups.is_open("g"))

    await rim.lease.leave()


async def test_should_forget_a_group_that_was_deleted_before_it_opened() -> None:
    table = with_free_groups("g")
    rim = Rim(table, "http://a")
    rim.groups.missing.add("g")
    await rim.lease.start()
    del table.groups["g"]

    assert await rim.lease.located("g") == NoSuchGroup()

    await rim.lease.leave()


async def test_should_answer_nothing_while_the_database_is_away_and_read_all_again_afterwards() -> None:
    table = with_free_groups("g")
    async with started(table) as rim:
        rim.lease.check()
        rim.store.is_away = True
        await until(lambda: rim.lease.problem() is not None)
        with pytest.raises(LeaseEnded):
            rim.lease.check()
        with pytest.raises(LeaseEnded):
            await rim.lease.located("g")
        await until(lambda: "let go" in rim.groups.done)
        assert rim.measured("assignor_lease_valid") == 0
        assert rim.measured("assignor_late_answers_refused_total") >= 2

        rim.store.is_away = False
        await until(lambda: rim.lease.problem() is None)
        await until(lambda: "read again" in rim.groups.done)

        assert rim.groups.epochs == {"g": 5}, "nobody took it meanwhile"
        assert rim.measured("assignor_lease_valid") == 1
        assert len(rim.store.ids) == 1


async def test_should_lose_everything_with_its_row_and_enter_under_another_id() -> None:
    table = with_free_groups("g")
    async with started(table) as rim:
        del table.coordinators[rim.store.ids[0]]
        await until(lambda: len(rim.store.ids) == 2 and rim.groups.is_open("g"))

        assert rim.groups.done == ["open g 5", "let go", "lose g", "open g 6"]
        assert table.groups["g"].owner == rim.store.ids[1]


async def test_should_send_nobody_to_itself_because_a_process_before_it_had_its_address() -> None:
    table = with_free_groups("g")
    dead = Rim(table, "http://a")
    await dead.lease.start()
    dead.lease._has_left = True
    async with started(table, "http://a") as rim:
        assert rim.lease.elsewhere() == [OtherGroup("g", None, 0)]
        asked = asyncio.ensure_future(rim.lease.located("g"))
        try:
            assert await asked == Here(6)
        except GroupIsLoading:  # it waits for half a second, and a row is looked at for nearly as long
            await until(lambda: rim.groups.is_open("g"))


async def test_should_give_all_away_before_it_leaves() -> None:
    table = with_free_groups("g", "h", "i", "j")
    async with started(table, "http://a") as first, started(table, "http://b") as second:
        await until(lambda: len(second.groups.epochs) == 2)

        await first.lease.give_away(WAIT_S)

        assert first.groups.epochs == {}
        assert {each.owner for each in table.groups.values()} == set(second.store.ids)
        for group_id in table.groups:
            assert await first.lease.located(group_id) == Elsewhere("http://b")
        await first.lease.leave()
        with pytest.raises(LeaseEnded):
            first.lease.check()
        await until(lambda: len(second.groups.epochs) == 4)


async def test_should_begin_no_hand_over_once_the_time_to_give_away_is_over() -> None:
    table = with_free_groups(*(f"g{number}" for number in range(3 * HANDED_OVER_AT_ONE_TIME)))
    async with started(table, "http://a") as first:
        second = Rim(table, "http://b")
        await second.lease.start()
        second.lease.serves()
        await until(lambda: table.coordinators[second.store.ids[0]].takes)
        opened = len(first.groups.epochs)
        answers = asyncio.Event()

        async def hand_over(group_id: str, epoch: int, by: str, to: str) -> bool:
            await answers.wait()
            return False

        first.store.hand_over = hand_over  # type: ignore[method-assign]
        await first.lease.give_away(0.05)
        answers.set()
        await first.lease.leave()
        for _ in range(100):
            await asyncio.sleep(0)

        assert len(first.groups.epochs) >= opened - HANDED_OVER_AT_ONE_TIME
        await second.lease.leave()


async def test_should_let_the_store_end_its_statement_when_the_time_to_give_away_is_over() -> None:
    table = with_free_groups("g")
    async with started(table) as rim:
        poll, ended = rim.store.poll, asyncio.Event()

        async def blocked_poll(coordinator_id: str, *, takes: bool = True, renews: bool = True) -> LeaseView | None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.01)  # asyncpg asks the server over another connection to end the statement
                ended.set()
            return None

        rim.store.poll = blocked_poll  # type: ignore[method-assign]
        await rim.lease.give_away(0.05)
        rim.store.poll = poll  # type: ignore[method-assign]

        assert ended.is_set()


async def test_should_be_given_nothing_before_it_serves_and_once_it_stops() -> None:
    table = with_free_groups("g", "h", "i", "j")

    async def some_polls(of: Rim) -> None:
        wanted = table.coordinators[of.store.ids[0]].renewals + 4
        await until(lambda: table.coordinators[of.store.ids[0]].renewals >= wanted)

    async with started(table, "http://a") as first:
        second = Rim(table, "http://b")
        await second.lease.start()
        await some_polls(first)
        assert second.groups.epochs == {}
        second.lease.serves()
        await until(lambda: len(second.groups.epochs) == 2)

        await second.lease.give_away(WAIT_S)
        await some_polls(first)

        assert second.groups.epochs == {}
        assert {each.owner for each in table.groups.values()} == set(first.store.ids)
        await second.lease.leave()


async def test_should_not_own_a_group_that_was_created_for_a_coordinator_that_is_no_more() -> None:
    table = with_free_groups()
    async with started(table) as rim:
        with rim.lease.creating("new"):
            table.written("new", rim.store.ids[0])
            rim.groups.epochs["new"] = 1
            del table.coordinators[rim.store.ids[0]]
            await until(lambda: len(rim.store.ids) == 2)
            rim.lease.created("new", 1)
            assert rim.groups.done[-1] == "lose new"

        await until(lambda: rim.groups.is_open("new"))
        assert rim.groups.epochs == {"new": 2}


async def test_should_not_take_a_group_that_is_just_being_created_here() -> None:
    table = with_free_groups()
    async with started(table) as rim:
        with rim.lease.creating("new"):
            table.written("new", rim.store.ids[0])
            seen = table.coordinators[rim.store.ids[0]].renewals
            await until(lambda: table.coordinators[rim.store.ids[0]].renewals > seen + 2)
            rim.groups.epochs["new"] = 1
            rim.lease.created("new", 1)
        await until(lambda: table.coordinators[rim.store.ids[0]].renewals > seen + 5)

        assert (rim.groups.epochs, table.groups["new"].epoch) == ({"new": 1}, 1)


async def test_should_own_a_group_that_was_created_here_at_once() -> None:
    table = with_free_groups()
    async with started(table) as rim:
        assert rim.lease.is_unknown("new")
        with rim.lease.creating("new"):
            table.written("new", rim.store.ids[0])
            rim.groups.epochs["new"] = 1
            rim.lease.created("new", 1)

        assert not rim.lease.is_unknown("new")
        assert await rim.lease.located("new") == Here(1)
        seen = table.coordinators[rim.store.ids[0]].renewals
        await until(lambda: table.coordinators[rim.store.ids[0]].renewals > seen + 2)
        assert rim.groups.epochs == {"new": 1}
