"""Migrations: up from an empty file, nothing half-done, equal to the tables that the code uses, no newer schema."""

import sqlite3
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from coordinator_api.store import schema
from coordinator_api.store.engine import parse_url
from coordinator_api.store.schema import metadata
from tests.coordinator_api.store.databases import open_engine, upgraded

FILE = "store.sqlite3"


def tables(file: Path) -> set[str]:
    with sqlite3.connect(file) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_should_name_the_newest_migration_as_its_version() -> None:
    assert ScriptDirectory.from_config(schema.alembic_config()).get_current_head() == schema.VERSION


async def upgrade(directory: Path) -> tuple[str | None, str]:
    """The versions before and after."""
    async with open_engine(directory) as engine:
        return await upgraded(engine)


async def test_should_migrate_up_from_an_empty_file_and_find_nothing_to_do_after(tmp_path: Path) -> None:
    assert await upgrade(tmp_path) == (None, schema.VERSION)
    assert await upgrade(tmp_path) == (schema.VERSION, schema.VERSION)
    assert tables(tmp_path / FILE) == set(metadata.tables) | {"alembic_version"}


async def test_should_create_just_the_tables_that_the_code_uses(tmp_path: Path) -> None:
    def differences(connection: Connection) -> list[object]:
        return list(compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata))

    await upgrade(tmp_path)
    async with open_engine(tmp_path) as engine, engine.connect() as connection:
        assert await connection.run_sync(differences) == []


def test_should_go_down_and_up_again_with_a_url(tmp_path: Path) -> None:
    config = schema.alembic_config()
    config.attributes["url"] = parse_url(f"sqlite:///{tmp_path / FILE}")

    command.upgrade(config, "head")
    command.downgrade(config, "base")
    assert tables(tmp_path / FILE) == {"alembic_version"}
    command.upgrade(config, "head")
    assert "groups" in tables(tmp_path / FILE)


class CutShort(Exception):
    pass


def upgrade_and_fail(connection: Connection) -> None:
    schema.upgrade(connection)
    raise CutShort


async def test_should_leave_nothing_of_a_migration_that_is_cut_short(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        with pytest.raises(CutShort):
            async with engine.begin() as connection:
                await connection.run_sync(upgrade_and_fail)

    assert tables(tmp_path / FILE) == set()
