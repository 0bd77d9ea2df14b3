"""All groups of one service: a PUT that failed does not stay in the way, an unreadable log stops only its group."""

import asyncio
import json
import re
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from assignor.configs.kafka_versions import KafkaVersion
from coordinator_api.errors import GroupNotFound, TooManyGroups, UnreadableGroup
from coordinator_api.group.events import DeclareGroup
from coordinator_api.group.outcome import Declared
from coordinator_api.runtime.assembly import open_coordinator
from coordinator_api.runtime.coordinator import Coordinator
from coordinator_api.runtime.definitions import read_definition
from coordinator_api.store.repository import GroupLog, Repository, Written
from coordinator_api.store.store_errors import StoreError
from coordinator_api.store.stored_logs import checksum
from tests.coordinator_api.group_members import definition
from tests.coordinator_api.store.databases import settings_for

DEFINITION = read_definition(definition(), "g", 1_000)


async def lost_answer(
    self: Repository, group_id: str, expected: int, records: Sequence[str], *recorded: Any, **owned: Any
) -> Written:
    await append(self, group_id, expected, records, *recorded, **owned)
    raise StoreError("written, but nobody could say so")


append = Repository.append


@asynccontextmanager
async def opened(directory: Path, **changes: object) -> AsyncIterator[Coordinator]:
    coordinator = await open_coordinator(settings_for(directory, **changes))
    try:
        yield coordinator
    finally:
        await coordinator.close()


async def test_should_take_a_put_after_one_that_half_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(tmp_path) as coordinator:
        with monkeypatch.context() as failing:
            failing.setattr(Repository, "append", lost_answer)
            with pytest.raises(StoreError):
                await coordinator.handle_or_create("g", DeclareGroup(DEFINITION))
        with pytest.raises(GroupNotFound, match="there is no group g"):
            coordinator.group("g")
        declared = await coordinator.handle_or_create("g", DeclareGroup(DEFINITION))
        assert isinstance(declared, Declared)
        assert [(runtime.group_id, declared.revision) for runtime in coordinator.declared()] == [("g", 1)]


async def test_should_keep_the_kafka_version_of_a_group(tmp_path: Path) -> None:
    """A group that an earlier release stored has no version in its definition: it was led by the rules of 4.3."""
    stored = json.loads(DEFINITION)
    del stored["configs"]["kafka.version"]
    async with opened(tmp_path) as coordinator:
        assert await coordinator.kafka_version("new") is KafkaVersion.V4_4
        for group_id, definition_json in (("g", DEFINITION), ("old", json.dumps(stored))):
            await coordinator.handle_or_create(group_id, DeclareGroup(definition_json))
        assert await coordinator.kafka_version("g") is KafkaVersion.V4_4
        assert await coordinator.kafka_version("old") is KafkaVersion.V4_3

    again = read_definition(definition(), "g", 1_000, kafka_version=KafkaVersion.V4_3)
    assert json.loads(again) == stored, "the same definition is no change of a group that an earlier release stored"


@pytest.mark.parametrize(
    "record, why",
    [
        ('{"type":"Nonesuch"}', "it cannot be replayed: record: 'Nonesuch' is not a type of record"),
        ('{"type":"GroupEmptied","generation_id":1}', "it cannot be replayed: group g: "),
        ("[]", "it cannot be replayed: record: None is not a type of record"),
        (None, "the log of group g is damaged: its last record is 1, and 2 is expected"),
    ],
)
async def test_should_lead_the_others_when_one_log_cannot_be_read(tmp_path: Path, record: str | None, why: str) -> None:
    async with opened(tmp_path) as coordinator:
        for group_id in ("g", "other"):
            await coordinator.handle_or_create(group_id, DeclareGroup(DEFINITION))
    with sqlite3.connect(tmp_path / "store.sqlite3") as connection:
        connection.execute("UPDATE groups SET sequence = 2 WHERE group_id = 'g'")
        if record is not None:
            row = ("g", 2, record, checksum("g", 2, record), True)
            connection.execute("INSERT INTO group_records VALUES (?, ?, ?, ?, ?)", row)

    async with opened(tmp_path) as coordinator:
        assert [runtime.group_id for runtime in coordinator.declared()] == ["other"]
        refused = [
            coordinator.handle_or_create("g", DeclareGroup(DEFINITION)),
            coordinator.delete("g"),
        ]
        for call in refused:
            with pytest.raises(UnreadableGroup, match=rf"group g cannot be read, .* is not led: {re.escape(why)}"):
                await call
        assert isinstance(await coordinator.handle_or_create("other", DeclareGroup(DEFINITION)), Declared)


async def test_should_call_a_group_unreadable_until_its_repair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that heard in between that there is no such group would end for good."""
    async with opened(tmp_path) as coordinator:
        await coordinator.handle_or_create("g", DeclareGroup(DEFINITION))
        await coordinator.handle_or_create("g", DeclareGroup(read_definition(definition(), "g", 2_000)))
    with sqlite3.connect(tmp_path / "store.sqlite3") as connection:
        connection.execute("UPDATE groups SET sequence = sequence + 1 WHERE group_id = 'g'")
    load_group = Repository.load_group
    asked: list[str] = []

    async def ask_meanwhile(self: Repository, group_id: str) -> GroupLog:
        asked.append(group_id)
        with pytest.raises(UnreadableGroup):
            coordinator.group(group_id)
        return await load_group(self, group_id)

    async with opened(tmp_path) as coordinator:
        monkeypatch.setattr(Repository, "load_group", ask_meanwhile)
        await coordinator.repair("g", execute=True)

        assert asked == ["g", "g"], "before the repair, and to lead it again"
        assert coordinator.group("g").is_declared


async def test_should_declare_a_group_while_another_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_group = Repository.load_group
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def load_slowly(self: Repository, group_id: str) -> GroupLog:
        if group_id == "slow":
            begun.set()
            await go_on.wait()
        return await load_group(self, group_id)

    monkeypatch.setattr(Repository, "load_group", load_slowly)
    async with opened(tmp_path) as coordinator:
        slow = asyncio.ensure_future(coordinator.handle_or_create("slow", DeclareGroup(DEFINITION)))
        await begun.wait()

        assert isinstance(
            await asyncio.wait_for(coordinator.handle_or_create("g", DeclareGroup(DEFINITION)), 30), Declared
        )
        assert not slow.done()
        go_on.set()
        assert isinstance(await slow, Declared)


async def test_should_never_have_more_groups_than_allowed_however_they_are_declared(tmp_path: Path) -> None:
    async with opened(tmp_path, group_max_count=3) as coordinator:
        declared = await asyncio.gather(
            *(coordinator.handle_or_create(f"g{number}", DeclareGroup(DEFINITION)) for number in range(10)),
            return_exceptions=True,
        )
        again = await coordinator.handle_or_create(coordinator.declared()[0].group_id, DeclareGroup(DEFINITION))

        assert sum(isinstance(answer, Declared) for answer in declared) == 3
        assert {type(answer) for answer in declared} <= {Declared, TooManyGroups}
        assert isinstance(again, Declared)
