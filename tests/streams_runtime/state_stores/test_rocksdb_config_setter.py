"""`rocksdb.config.setter` changes the options with which a store is opened. Kafka's: `RocksDBStoreTest`."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assignor import InputError
from streams_runtime import LONG, STRING, StreamsConfig, Topology, TopologyTestDriver, key_value_store, window_store
from streams_runtime.common.errors import ProcessorStateError
from streams_runtime.state_stores.state_store import StoreBuilder
from tests.known import known
from tests.streams_runtime.state_stores.surroundings import context
from tests.streams_runtime.word_counting import CountWord

GIVEN = {"application.id": "app", "bootstrap.servers": "memory:app"}
BYTES_SET = 3 << 20


def smaller_memtables(store: str, options: Any) -> None:
    options.set_write_buffer_size(BYTES_SET)


class Setter:
    def set_config(self, store: str, options: Any) -> None:
        smaller_memtables(store, options)


def _options_on_disk(directory: Path) -> str:
    """What RocksDB has noted of the options that it runs with."""
    newest = max(directory.glob("rocksdb/*/**/OPTIONS-*"))
    return newest.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "builder",
    [
        key_value_store("store", STRING, LONG),
        window_store("store", STRING, LONG, retention_ms=1_000, window_size_ms=100),
    ],
    ids=["key-value", "window"],
)
def test_should_open_the_store_with_the_options_it_sets(builder: StoreBuilder, tmp_path: Path) -> None:
    asked: list[str] = []

    def setter(store: str, options: Any) -> None:
        asked.append(store)
        smaller_memtables(store, options)

    store = builder.build()
    store.open(replace(context(tmp_path), rocksdb_config_setter=setter))
    store.close()

    assert asked == ["store"]
    assert f" write_buffer_size={BYTES_SET}\n" in _options_on_disk(tmp_path)


def test_should_name_the_store_when_it_fails(tmp_path: Path) -> None:
    def setter(store: str, options: Any) -> None:
        options.set_no_such_option(1)

    store = key_value_store("store", STRING, LONG).build()
    with pytest.raises(ProcessorStateError, match=r"store store: rocksdb\.config\.setter failed: AttributeError: "):
        store.open(replace(context(tmp_path), rocksdb_config_setter=setter))
    assert not store.is_open


@pytest.mark.parametrize(
    "value", [smaller_memtables, Setter, Setter(), f"{__name__}.smaller_memtables", f"{__name__}:Setter"]
)
def test_should_take_a_function_or_a_class_or_its_name(value: object) -> None:
    configs = StreamsConfig.from_dotted({**GIVEN, "rocksdb.config.setter": value})
    changed: list[int] = []

    class Options:
        def set_write_buffer_size(self, size: int) -> None:
            changed.append(size)

    known(configs.rocksdb_config_setter)("store", Options())
    assert changed == [BYTES_SET]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (7, "rocksdb.config.setter must be a function of a store's name and its options"),
        ("setter", "rocksdb.config.setter must be a full name such as package.module.NAME, not 'setter'"),
    ],
)
def test_should_refuse_what_sets_nothing(value: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        StreamsConfig.from_dotted({**GIVEN, "rocksdb.config.setter": value})


def test_should_be_asked_for_the_stores_of_a_task() -> None:
    asked: list[str] = []
    setter: Callable[[str, Any], None] = lambda store, _options: asked.append(store)  # noqa: E731
    topology = Topology().add_source("words", "words", key_serde=STRING, value_serde=STRING)
    topology.add_processor("count", CountWord, "words")
    topology.add_state_store(key_value_store("counts", STRING, LONG), "count")
    topology.add_sink("totals", "totals", "count", key_serde=STRING, value_serde=LONG)

    with TopologyTestDriver(topology, {"rocksdb.config.setter": setter}):
        assert asked == ["counts"]
