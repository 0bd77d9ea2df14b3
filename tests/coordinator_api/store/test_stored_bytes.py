"""`groups.stored_bytes` is the sum of what a group's rows take, after whatever was written, on both databases."""

import asyncio
import itertools
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from coordinator_api.settings import Settings
from coordinator_api.store.backup import back_up, restore
from coordinator_api.store.repository import Recording, Repository
from coordinator_api.store.schema import group_records, rebalances
from coordinator_api.store.store_errors import ConcurrentWriter
from coordinator_api.store.stored_logs import NUMBERS_OF_A_LOG
from tests.coordinator_api.store.databases import open_repository, settings_for
from tests.coordinator_api.store.test_backup import AT_SEVEN, DEFINED

RETAINED = 3
_names = (f"group-{number}" for number in itertools.count())

_RECORDS = st.lists(st.text("ab{}", min_size=1, max_size=30), max_size=4)
_OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), _RECORDS, st.none()),
        st.tuples(st.just("append"), _RECORDS, st.binary(min_size=1, max_size=50)),
        st.tuples(st.just("replace"), _RECORDS.filter(len), st.none()),
        st.tuples(st.just("renew"), _RECORDS, st.none()),
        st.tuples(st.just("out of date"), _RECORDS.filter(len), st.binary(min_size=1, max_size=50)),
        st.tuples(st.just("delete"), st.just([]), st.none()),
    ),
    max_size=25,
)


@pytest.fixture
def database(database: Settings) -> Settings:
    return database.model_copy(update={"rebalances_retained_count": RETAINED, "sqlite_synchronous": "NORMAL"})


async def written(repository: Repository, operations: Sequence[tuple[str, list[str], bytes | None]]) -> None:
    """Carry them out on a group of its own, and compare after each."""
    name, sequence, generation = next(_names), 0, 0
    for what, records, document in operations:
        said: int | None = None
        if what == "append" and (records or sequence):
            generation += document is not None
            recording = None if document is None else Recording(generation, 0, "{}", document)
            sequence, said = await repository.append(name, sequence, records, recording, epoch=0)
        elif what == "replace" and sequence:
            sequence, said = await repository.replace(name, sequence, records, epoch=0)
        elif what == "renew" and sequence:  # as a repair does
            sequence, said = await repository.renew(name, sequence, records, epoch=0)
        elif what == "out of date" and sequence and document is not None:
            newer = Recording(generation + 1, 0, "{}", document)
            with pytest.raises(ConcurrentWriter):
                await repository.append(name, sequence + 1, records, newer, epoch=0)
        elif what == "delete" and sequence:
            await repository.delete(name, sequence, epoch=0)
            sequence = generation = 0
        expected = await _length_of_rows(repository, name)
        assert (await repository.stored_bytes()).get(name, 0) == expected
        assert (await repository.load_group(name)).stored_bytes == expected
        assert said in (None, expected)


async def _length_of_rows(repository: Repository, name: str) -> int:
    total = 0
    async with repository._engine.connect() as connection:
        for column in (group_records.c.body, rebalances.c.document):
            lengths = select(func.sum(func.length(column))).where(column.table.c.group_id == name)
            total += (await connection.execute(lengths)).scalar() or 0
    return total


def test_should_count_what_a_group_takes_after_whatever_was_written(database: Settings) -> None:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        repository = runner.run(stack.enter_async_context(open_repository(database, RETAINED)))

        @settings(max_examples=20, deadline=None)
        @given(_OPERATIONS)
        def always(operations: list[tuple[str, list[str], bytes | None]]) -> None:
            runner.run(written(repository, operations))

        try:
            always()
        finally:
            runner.run(stack.aclose())


@pytest.mark.parametrize("keep_members", [True, False])
async def test_should_count_a_restored_repaired_group(database: Settings, tmp_path: Path, keep_members: bool) -> None:
    """Its numbers begin at a multiple of 2**32, and what it had before does not count."""
    (tmp_path / "target").mkdir()
    source, target = settings_for(tmp_path / "target"), database
    async with open_repository(source, RETAINED) as repository:
        sequence, _ = await repository.append("g", 0, [DEFINED, AT_SEVEN], Recording(7, 1, "{}", b"packed"), epoch=0)
        sequence, said = await repository.renew("g", sequence, [DEFINED, AT_SEVEN], epoch=0)
    await back_up(source, tmp_path / "b", replace=False, progress=lambda _done, _total: None)
    done = await restore(target, tmp_path / "b", keep_members=keep_members, progress=lambda _done, _total: None)

    async with open_repository(target, RETAINED) as repository:
        log = await repository.load_group("g")
        assert log.stored_bytes == await _length_of_rows(repository, "g")
        assert (log.sequence == sequence, log.stored_bytes == said) == (keep_members, keep_members)
        assert log.sequence > sequence or keep_members
        again = await repository.renew("g", log.sequence, [DEFINED], epoch=0)
        assert again == (2 * NUMBERS_OF_A_LOG + 1, len(DEFINED) + len(b"packed"))
    assert not done.damaged
