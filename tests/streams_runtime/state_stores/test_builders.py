"""Builders are values that can be sent to executors, and that refuse impossible stores."""

import dataclasses
from pathlib import Path
from typing import TypeVar

import pytest
from pyspark import cloudpickle

from assignor.errors import InputError
from assignor.topology.group_topology import ChangelogConfig, ChangelogType
from streams_runtime.serdes import JSON, LONG, STRING, Serdes
from streams_runtime.state_stores.builders import (
    KeyValueStoreBuilder,
    key_value_store,
    timestamped_key_value_store,
    timestamped_window_store,
    window_store,
)
from streams_runtime.state_stores.state_store import StoreBuilder
from tests.streams_runtime.state_stores.surroundings import context

Builder = TypeVar("Builder", bound=StoreBuilder)

BUILDERS: list[StoreBuilder] = [
    builder
    for persistent in (True, False)
    for builder in (
        key_value_store("plain", STRING, JSON, persistent=persistent),
        timestamped_key_value_store("timestamped", STRING, LONG, persistent=persistent, changelog=None),
        window_store("w", STRING, JSON, retention_ms=100, window_size_ms=10, persistent=persistent),
        timestamped_window_store("tw", STRING, JSON, retention_ms=100, window_size_ms=10, persistent=persistent),
        window_store(
            "d", STRING, JSON, retention_ms=100, window_size_ms=10, persistent=persistent, retain_duplicates=True
        ),
    )
]


def pickled(builder: Builder) -> Builder:
    return cloudpickle.loads(cloudpickle.dumps(builder))  # type: ignore[no-any-return, no-untyped-call]


def label(builder: StoreBuilder) -> str:
    return f"{builder.name} {builder.build().persistent}"


@pytest.mark.parametrize("builder", BUILDERS, ids=label)
def test_should_be_the_same_builder_after_pickling(builder: StoreBuilder, tmp_path: Path) -> None:
    copy = pickled(builder)
    store = copy.build()
    store.open(context(tmp_path))

    assert copy == builder
    assert (store.name, store.persistent, store.is_open) == (builder.name, builder.build().persistent, True)
    store.close()


def test_should_carry_serdes_made_of_functions_to_another_process(tmp_path: Path) -> None:
    numbers: Serdes[list[int]] = Serdes(lambda value: bytes(value), lambda data: list(data))
    store = pickled(key_value_store("s", STRING, numbers, persistent=False)).build()
    store.open(context(tmp_path))
    store.put("a", [1, 2])

    assert store.get("a") == [1, 2]


@pytest.mark.parametrize("builder", BUILDERS, ids=label)
def test_should_be_frozen_and_build_a_new_store_each_time(builder: StoreBuilder) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        builder.name = "other"  # type: ignore[misc]
    assert builder.build() is not builder.build()


def test_should_be_made_with_or_without_its_types_said() -> None:
    assert KeyValueStoreBuilder[str, int]("s", STRING, LONG) == key_value_store("s", STRING, LONG)


def test_should_retain_duplicates_only_without_timestamps() -> None:
    with pytest.raises(TypeError, match="retain_duplicates"):
        timestamped_window_store(  # type: ignore[call-arg]
            "w", STRING, LONG, retention_ms=100, window_size_ms=10, retain_duplicates=True
        )


def test_should_be_persistent_and_logged_by_default() -> None:
    builder = key_value_store("s", STRING, LONG)

    assert (builder.persistent, builder.changelog) == (True, ChangelogConfig())
    assert timestamped_key_value_store("s", STRING, LONG).changelog == ChangelogConfig()


def test_should_have_a_windowed_changelog_with_the_stores_retention() -> None:
    def changelog_with(changelog: ChangelogConfig | None) -> ChangelogConfig | None:
        return window_store("w", STRING, LONG, retention_ms=100, window_size_ms=10, changelog=changelog).changelog

    assert changelog_with(ChangelogConfig()) == ChangelogConfig(ChangelogType.WINDOWED, retention_ms=100)
    assert changelog_with(ChangelogConfig(configs={"a": "b"}, retention_ms=7)) == ChangelogConfig(
        ChangelogType.WINDOWED, {"a": "b"}, retention_ms=7
    )
    assert changelog_with(None) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a b", "ä", "a" * 250, "a\n"])
def test_should_refuse_a_name_that_is_none_for_a_topic_and_a_directory(name: str) -> None:
    with pytest.raises(InputError, match="cannot be the name of a store"):
        key_value_store(name, STRING, LONG)
    with pytest.raises(InputError, match="cannot be the name of a store"):
        timestamped_key_value_store(name, STRING, LONG)
    with pytest.raises(InputError, match="cannot be the name of a store"):
        window_store(name, STRING, LONG, retention_ms=1, window_size_ms=1)


@pytest.mark.parametrize(
    "retention_ms, window_size_ms, message",
    [
        (-1, 0, "store w: retention cannot be negative, it is -1 ms"),
        (0, -1, "store w: window size cannot be negative, it is -1 ms"),
        (9, 10, r"store w: retention \(9 ms\) must not be smaller than the window size \(10 ms\)"),
    ],
)
def test_should_refuse_times_of_no_window_store(retention_ms: int, window_size_ms: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        window_store("w", STRING, LONG, retention_ms=retention_ms, window_size_ms=window_size_ms)
