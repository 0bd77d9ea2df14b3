"""The store: appended once, refused to a second writer, shortened without loss, bounded in its recordings."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from sqlalchemy import func, select

from coordinator_api.settings import Settings
from coordinator_api.store.opening import open_store
from coordinator_api.store.repository import GroupLog, Recording, RecordingNote, Repository, Written
from coordinator_api.store.schema import group_records, groups, rebalances
from coordinator_api.store.store_errors import ConcurrentWriter, NameTaken, NotOwner, StoreError
from coordinator_api.store.token_store import StoredToken
from coordinator_client.access.principals import Principal, Right
from coordinator_client.access.tokens import TokenEntry, digest_of
from tests.coordinator_api.store.databases import open_repository


@pytest.fixture
async def repository(database: Settings) -> AsyncIterator[Repository]:
    async with open_repository(database) as opened:
        yield opened


async def loaded(repository: Repository) -> list[GroupLog]:
    return [await repository.load_group(group_id) for group_id in await repository.stored_bytes()]


def recording(generation_id: int) -> Recording:
    return Recording(
        generation_id, generation_id, f'{{"generation_id":{generation_id}}}', gzip.compress(b"{}", mtime=0)
    )


async def test_should_give_back_what_was_appended_in_order(repository: Repository, database: Settings) -> None:
    sequence, _ = await repository.append("b", 0, ['{"type":"first"}', '{"type":"second"}'], epoch=0)
    await repository.append("b", sequence, ['{"type":"third"}'], epoch=0)
    await repository.append("a", 0, ["{}"], epoch=0)

    expected = [
        GroupLog("a", 1, ("{}",)),
        GroupLog("b", 3, ('{"type":"first"}', '{"type":"second"}', '{"type":"third"}')),
    ]
    assert await loaded(repository) == expected
    async with open_repository(database) as opened_anew:
        assert await loaded(opened_anew) == expected


@pytest.mark.parametrize("expected", [0, 1, 3])
async def test_should_refuse_an_outdated_writer_and_write_nothing(repository: Repository, expected: int) -> None:
    await repository.append("g", 0, ["1", "2"], epoch=0)
    for write in (repository.append, repository.replace):
        with pytest.raises(ConcurrentWriter):
            await write("g", expected, ["intruder"], epoch=0)
    if expected:
        with pytest.raises(ConcurrentWriter):
            await repository.delete("g", expected, epoch=0)

    assert await repository.load_group("g") == GroupLog("g", 2, ("1", "2"))


async def test_should_let_one_of_two_concurrent_writers_through(repository: Repository) -> None:
    await repository.append("g", 0, ["1"], epoch=0)
    both = await asyncio.gather(
        repository.append("g", 1, ["left"], epoch=0),
        repository.append("g", 1, ["right"], epoch=0),
        return_exceptions=True,
    )

    assert {type(result) for result in both} == {ConcurrentWriter, Written}
    assert await repository.load_group("g") in (GroupLog("g", 2, ("1", "left")), GroupLog("g", 2, ("1", "right")))


async def test_should_read_a_log_as_it_is_at_one_moment(repository: Repository) -> None:
    """While it is being written: neither too few records nor too many for its number."""
    sequence, _ = await repository.append("g", 0, ["1"], epoch=0)

    async def write() -> None:
        last = sequence
        for number in range(50):
            write = repository.append if number % 5 else repository.replace
            last, _ = await write("g", last, ["a", "b"], epoch=0)

    writing = asyncio.ensure_future(write())
    while not writing.done():
        await repository.load_group("g")
        assert (await repository.stored_log("g")).problem is None
    await writing


async def test_should_replace_a_log_by_its_snapshot_and_go_on_counting(repository: Repository) -> None:
    sequence, _ = await repository.append("g", 0, ["1", "2", "3"], epoch=0)
    sequence, _ = await repository.replace("g", sequence, ["snapshot"], epoch=0)
    await repository.append("g", sequence, ["4"], epoch=0)

    assert await repository.load_group("g") == GroupLog("g", 5, ("snapshot", "4"))


async def test_should_forget_a_deleted_group_with_its_records_and_rebalances(repository: Repository) -> None:
    await repository.append("g", 0, ["1"], recording(1), epoch=0)
    await repository.delete("g", 1, epoch=0)

    async with repository._engine.connect() as connection:
        for table in (groups, group_records, rebalances):
            assert (await connection.execute(select(func.count()).select_from(table))).scalar() == 0
    assert await repository.load_group("g") == GroupLog("g", 0, ())


async def test_should_keep_only_the_newest_rebalances(database: Settings) -> None:
    sequence = 0
    async with open_repository(database, retained_rebalances=2) as repository:
        for generation_id in range(1, 6):
            sequence, _ = await repository.append("g", sequence, ["r"], recording(generation_id), epoch=0)

        assert await repository.list_rebalances("g", None, 10) == [{"generation_id": 5}, {"generation_id": 4}]
        assert (await repository.rebalance("g", 5), await repository.rebalance("g", 3)) == (recording(5).document, None)


async def test_should_write_records_and_recording_together_or_not_at_all(repository: Repository) -> None:
    await repository.append("g", 0, ["1"], recording(1), epoch=0)
    with pytest.raises(StoreError):
        await repository.append("g", 1, ["2"], recording(1), epoch=0)

    assert await repository.load_group("g") == GroupLog("g", 1, ("1",))
    assert await repository.list_rebalances("g", None, 10) == [{"generation_id": 1}]


async def test_should_sync_every_commit_to_disk_by_default(tmp_path: Path) -> None:
    names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
    async with open_repository(tmp_path) as repository, repository._engine.connect() as connection:
        pragmas = [(await connection.exec_driver_sql(f"PRAGMA {name}")).scalar() for name in names]

    assert pragmas == ["wal", 2, 1, 5_000]


async def test_should_note_how_the_wait_of_a_recorded_rebalance_ended(repository: Repository) -> None:
    waits = Recording(1, 5, '{"generation_id": 1, "outcome": "held", "hold": {"since_ms": 5, "ended": null}}', b"old")
    _, held_bytes = await repository.append("g", 0, ["1"], waits, epoch=0)
    note = RecordingNote(1, None, {"ended": "discarded", "by": "ada"})
    await repository.append("g", 1, ["2"], notes=[note, RecordingNote(7, "stable", {"ended": "approved"})], epoch=0)
    kept = Recording(1, 6, '{"generation_id": 1, "outcome": "stable"}', b"newer")
    _, kept_bytes = await repository.append("g", 2, ["3"], kept, epoch=0)

    discarded = {"since_ms": 5, "ended": "discarded", "by": "ada"}
    assert await repository.list_rebalances("g", None, 9) == [
        {"generation_id": 1, "outcome": "stable", "hold": discarded}
    ]
    assert await repository.rebalance("g", 1) == b"newer"
    assert (held_bytes, kept_bytes) == (len("1") + len(b"old"), len("123") + len(b"newer"))


# --- owners


WRITES: dict[str, Callable[[Repository, int], Awaitable[object]]] = {
    "append": lambda repository, epoch: repository.append("g", 1, ["intruder"], recording(1), epoch=epoch, members=9),
    "replace": lambda repository, epoch: repository.replace("g", 1, ["intruder"], epoch=epoch),
    "renew": lambda repository, epoch: repository.renew("g", 1, ["intruder"], epoch=epoch),
    "delete": lambda repository, epoch: repository.delete("g", 1, epoch=epoch),
}


@pytest.mark.parametrize("write", WRITES)
async def test_should_refuse_a_writer_of_another_epoch_or_owner(repository: Repository, write: str) -> None:
    repository.owned_by("me")
    await repository.append("g", 0, ["1"], epoch=1)
    for epoch in (0, 2):
        with pytest.raises(NotOwner, match="of group g was written: in epoch 1, me owns it"):
            await WRITES[write](repository, epoch)
    for owner in ("another", None):
        repository.owned_by(owner)
        with pytest.raises(NotOwner):
            await WRITES[write](repository, 1)

    assert await repository.load_group("g") == GroupLog("g", 1, ("1",))
    assert await repository.list_rebalances("g", None, 10) == []
    repository.owned_by("me")
    await WRITES[write](repository, 1)


async def test_should_say_which_epoch_a_write_has_to_name(repository: Repository) -> None:
    """Of a group that is there, and of one that is to be made: by nobody, and by a coordinator."""
    found = [(await repository.load_group("nobodys")).epoch, (await repository.stored_log("nobodys")).epoch]
    await repository.append("nobodys", 0, ["1"], epoch=0)
    repository.owned_by("me")
    found += [(await repository.load_group("nobodys")).epoch, (await repository.load_group("mine")).epoch]
    await repository.append("mine", 0, ["1"], epoch=1)
    found += [(await repository.load_group("mine")).epoch, (await repository.stored_log("mine")).epoch]

    assert found == [0, 0, 0, 1, 1, 1]


async def test_should_refuse_to_make_a_group_that_another_coordinator_has_made(repository: Repository) -> None:
    repository.owned_by("another")
    await repository.append("g", 0, ["1"], epoch=1)
    repository.owned_by("me")

    with pytest.raises(NotOwner, match="another owns it, and not me in epoch 1"):
        await repository.append("g", 0, ["intruder"], epoch=1)


async def test_should_keep_the_number_of_members_until_it_changes(repository: Repository) -> None:
    async def members() -> object:
        async with repository._engine.connect() as connection:
            return (await connection.execute(select(groups.c.members))).scalar()

    await repository.append("g", 0, ["1"], epoch=0)
    found = [await members()]
    for given in (5, None, 0):
        last = (await repository.load_group("g")).sequence
        await repository.append("g", last, ["next"], epoch=0, members=given)
        found.append(await members())
    await repository.append("made", 0, ["1"], epoch=0, members=4)
    await repository.delete("g", 4, epoch=0)
    found.append(await members())

    assert found == [0, 5, 5, 0, 4]


async def test_should_be_checked_by_several_at_one_time(repository: Repository, database: Settings) -> None:
    async with open_repository(database) as another:
        await asyncio.gather(*(each.check() for _ in range(10) for each in (repository, another)))


async def test_should_write_one_group_while_another_one_is_locked(on_postgresql: Settings) -> None:
    """By a coordinator that stands still in the middle of a write."""
    async with open_repository(on_postgresql) as repository:
        for group_id in ("locked", "free"):
            await repository.append(group_id, 0, ["1"], epoch=0)
        async with repository._engine.begin() as other:
            await other.execute(groups.update().where(groups.c.group_id == "locked").values(members=1))
            waits = asyncio.ensure_future(repository.append("locked", 1, ["2"], epoch=0))

            for number in range(1, 4):
                await repository.append("free", number, ["2"], epoch=0)

            assert not waits.done()
        assert (await waits).sequence == 2


# --- tokens: each name once, whichever process was faster


def token(name: str, secret: bytes) -> StoredToken:
    return StoredToken(TokenEntry(Principal(name, Right.READER, ""), digest_of(secret), None), 1, "root")


async def test_should_refuse_a_name_that_another_process_has_just_stored(database: Settings) -> None:
    first = token("ops", b"one")
    async with open_store(database) as opened:
        await opened.repository.tokens.add(first)
        with pytest.raises(NameTaken, match="another coordinator has just created a token ops"):
            await opened.repository.tokens.add(token("ops", b"two"))
        assert await opened.repository.tokens.tokens() == [first]
