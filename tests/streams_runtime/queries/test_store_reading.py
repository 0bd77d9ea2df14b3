"""Keys from text and bytes, values as JSON and base64, for each kind of store."""

import base64
import json
import pickle
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_runtime.dsl.windows import SessionWindowedSerde, TimeWindowedSerde
from streams_runtime.queries.problems import QueryCode, QueryProblem
from streams_runtime.queries.store_reading import (
    fetch_windows,
    find_sessions,
    key_bytes,
    read_entries,
    read_key,
    read_versions,
)
from streams_runtime.serdes import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INTEGER,
    JSON,
    LONG,
    SHORT,
    STRING,
    UUID,
    ListSerde,
    Serde,
    Serdes,
)
from streams_runtime.state_stores.builders import (
    key_value_store,
    session_store,
    timestamped_key_value_store,
    timestamped_window_store,
    versioned_key_value_store,
    window_store,
)
from streams_runtime.state_stores.state_store import StoreBuilder, ValueAndTimestamp, Windowed
from tests.streams_runtime.queries.fake_instance import COUNTS, open_store
from tests.streams_runtime.state_stores.surroundings import context as store_context

PICKLED: Serde[Any] = Serdes(pickle.dumps, pickle.loads)
AN_ID = uuid.UUID("12345678-1234-5678-1234-567812345678")
A_WINDOW = Windowed(AN_ID, 20, 30)
WINDOW_SHOWN = {"key": str(AN_ID), "window_start_ms": 20, "window_end_ms": 30}
HOUR_MS = 3_600_000


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def of_keys(serde: Serde[Any]) -> StoreBuilder:
    return key_value_store("s", serde, LONG, persistent=False)


def of_values(serde: Serde[Any]) -> StoreBuilder:
    return key_value_store("s", STRING, serde, persistent=False)


def windows_of(*, timestamped: bool = False) -> StoreBuilder:
    kind = timestamped_window_store if timestamped else window_store
    return kind("w", STRING, LONG, retention_ms=HOUR_MS, window_size_ms=10, persistent=False)


# --- keys


@pytest.mark.parametrize(
    "serde, text, written",
    [
        (STRING, "käse", "käse".encode()),
        (STRING, "", b""),
        (LONG, "-5", LONG.serialize(-5)),
        (INTEGER, "-5", INTEGER.serialize(-5)),
        (SHORT, "-5", SHORT.serialize(-5)),
        (DOUBLE, "1.5", DOUBLE.serialize(1.5)),
        (FLOAT, "1.5", FLOAT.serialize(1.5)),
        (UUID, "12345678-1234-5678-1234-567812345678", b"12345678-1234-5678-1234-567812345678"),
        (JSON, '{"b": 1, "a": [2]}', b'{"a":[2],"b":1}'),
        (BYTES, "raw", b"raw"),
        (BOOLEAN, "true", b"\x01"),
        (BOOLEAN, "false", b"\x00"),
    ],
)
def test_should_read_a_key_as_text_by_the_stores_own_serde(serde: Serde[Any], text: str, written: bytes) -> None:
    assert key_bytes(of_keys(serde), text, None) == written


@given(key=st.binary(max_size=40))
def test_should_find_a_key_of_any_bytes_when_it_comes_as_base64(key: bytes) -> None:
    builder = of_keys(BYTES)
    store = open_store(builder)
    store.put(key, 7)
    for encoded in (base64_of(key), base64.urlsafe_b64encode(key).decode()):
        assert read_key(builder, store, key_bytes(builder, None, encoded), None)["value"] == 7
    store.close()


@pytest.mark.parametrize(
    "serde, key, key_base64, reason",
    [
        (STRING, None, None, "give the key as"),
        (STRING, "a", "YQ==", "give the key as"),
        (STRING, None, "a", "not base64"),
        (STRING, None, "ab c", "write - and _"),
        (STRING, None, "ä", "not base64"),
        (LONG, "five", None, "'five' is no key of 's'"),
        (BOOLEAN, "yes", None, "'yes' is no key of 's'"),
        (LONG, str(2**63), None, "is no key of 's'"),
        (JSON, "{", None, "is no key of 's'"),
        (PICKLED, "a", None, "serde of their own"),
    ],
)
def test_should_refuse_a_garbage_key(serde: Serde[Any], key: str | None, key_base64: str | None, reason: str) -> None:
    with pytest.raises(QueryProblem, match=reason) as refused:
        key_bytes(of_keys(serde), key, key_base64)
    assert refused.value.code is QueryCode.INVALID_REQUEST


@pytest.mark.parametrize("serde, key", [(LONG, b"short"), (STRING, b"\xff"), (JSON, b"{"), (JSON, b'{"b": 1}')])
def test_should_refuse_bytes_that_the_key_serde_never_writes(serde: Serde[Any], key: bytes) -> None:
    """A look-up would find nothing, which would not be the truth about the key that was meant."""
    with pytest.raises(QueryProblem, match="'s'") as refused:
        key_bytes(of_keys(serde), None, base64_of(key))
    assert refused.value.code is QueryCode.INVALID_REQUEST


# --- values


@pytest.mark.parametrize(
    "serde, value, shown",
    [
        (LONG, 5, 5),
        (STRING, "", ""),
        (JSON, {"_sa": [1, None]}, {"_sa": [1, None]}),
        (BYTES, b"\x00\xff", None),
        (BOOLEAN, False, False),
        (SHORT, -5, -5),
        (FLOAT, 1.5, 1.5),
        (UUID, AN_ID, str(AN_ID)),
        (ListSerde(UUID), [AN_ID, None], [str(AN_ID), None]),
        (ListSerde(ListSerde(STRING)), [["a"], [], None], [["a"], [], None]),
        (ListSerde(BYTES), [b"a"], None),
        (TimeWindowedSerde(UUID, 10), A_WINDOW, WINDOW_SHOWN),
        (SessionWindowedSerde(UUID), A_WINDOW, WINDOW_SHOWN),
        (DOUBLE, float("nan"), None),
        (DOUBLE, float("inf"), None),
        (PICKLED, {1, 2}, None),
        (PICKLED, "\ud800", None),
    ],
)
def test_should_give_bytes_always_and_json_where_possible(serde: Serde[Any], value: object, shown: object) -> None:
    builder = of_values(serde)
    store = open_store(builder)
    store.put("k", value)
    assert read_key(builder, store, b"k", None) == {
        "value": shown,
        "value_base64": base64_of(serde.serialize(value)),
        "timestamp_ms": None,
    }


@pytest.mark.parametrize("builder_of_kind", [window_store, session_store, versioned_key_value_store, key_value_store])
def test_should_show_keys_and_values_as_json_in_answers_about_each_kind_of_store(
    builder_of_kind: Callable[..., StoreBuilder], tmp_path: Path
) -> None:
    shown, key = str(AN_ID), UUID.serialize(AN_ID)
    options: dict[Callable[..., StoreBuilder], dict[str, int]] = {
        window_store: {"retention_ms": HOUR_MS, "window_size_ms": 10},
        session_store: {"retention_ms": HOUR_MS},
        versioned_key_value_store: {"history_retention_ms": HOUR_MS},
        key_value_store: {},
    }
    builder = builder_of_kind("s", UUID, UUID, **options[builder_of_kind])
    store = open_store(builder, tmp_path)
    if builder_of_kind is window_store:
        store.put(AN_ID, AN_ID, 20)
        entries = fetch_windows(builder, store, key, 0, 30, 5)[0] + read_entries(builder, store, 5)
    elif builder_of_kind is session_store:
        store.put(A_WINDOW, AN_ID)
        entries = find_sessions(builder, store, key, 0, HOUR_MS, 5)[0]
    elif builder_of_kind is versioned_key_value_store:
        store.put(AN_ID, AN_ID, 20)
        entries = [*read_versions(builder, store, key, 0, HOUR_MS, 5)[0], read_key(builder, store, key, None)]
    else:
        store.put(AN_ID, AN_ID)
        entries = [read_key(builder, store, key, None), *read_entries(builder, store, 5)]
    assert {entry["value"] for entry in entries} == {entry.get("key", shown) for entry in entries} == {shown}
    store.close()


def test_should_show_the_timestamp_apart_when_the_store_keeps_one() -> None:
    builder = timestamped_key_value_store("s", STRING, LONG, persistent=False)
    store = open_store(builder)
    store.put("k", ValueAndTimestamp(5, 99))
    entry = {"value": 5, "value_base64": base64_of(LONG.serialize(5)), "timestamp_ms": 99}
    assert read_key(builder, store, b"k", None) == entry
    assert read_entries(builder, store, 10) == [{"key": "k", "key_base64": base64_of(b"k"), **entry}]


def test_should_not_take_a_pair_for_a_timestamp_when_the_values_are_pairs() -> None:
    builder = of_values(PICKLED)
    store = open_store(builder)
    store.put("k", ValueAndTimestamp(5, 99))
    entry = read_key(builder, store, b"k", None)
    assert (entry["value"], entry["timestamp_ms"]) == ([5, 99], None)


def test_should_list_the_first_entries_of_a_copy_in_order_of_their_keys() -> None:
    store = open_store()
    for count, word in enumerate(("b", "c", "a")):
        store.put(word, count)
    assert [(one["key"], one["value"]) for one in read_entries(COUNTS, store, 2)] == [("a", 2), ("b", 0)]


# --- window stores


@pytest.mark.parametrize("timestamped", [False, True])
def test_should_fetch_windows_oldest_first_and_say_when_there_are_more(timestamped: bool, tmp_path: Path) -> None:
    builder = windows_of(timestamped=timestamped)
    store = open_store(builder, tmp_path)
    for start_ms in (30, 10, 20):
        store.put("k", ValueAndTimestamp(start_ms, 7) if timestamped else start_ms, start_ms)
    store.put("other", ValueAndTimestamp(1, 7) if timestamped else 1, 10)

    def window(start_ms: int) -> dict[str, object]:
        written = base64_of(LONG.serialize(start_ms))
        return {
            "window_start_ms": start_ms,
            "value": start_ms,
            "value_base64": written,
            "timestamp_ms": 7 if timestamped else None,
        }

    assert fetch_windows(builder, store, b"k", 10, 30, 3) == ([window(10), window(20), window(30)], False)
    assert fetch_windows(builder, store, b"k", 10, 30, 2) == ([window(10), window(20)], True)
    assert fetch_windows(builder, store, b"k", 11, 19, 2) == ([], False)
    assert read_key(builder, store, b"k", 20)["value"] == 20
    assert read_key(builder, store, b"k", 21)["value_base64"] is None


@pytest.mark.parametrize("persistent", [False, True])
def test_should_list_the_windows_of_all_keys_that_start_in_the_range(persistent: bool, tmp_path: Path) -> None:
    builder = window_store("w", STRING, LONG, retention_ms=HOUR_MS, window_size_ms=10, persistent=persistent)
    store = open_store(builder, tmp_path)
    for key, start_ms in (("a", 10), ("a", 20), ("b", 20), ("b", 30)):
        store.put(key, start_ms, start_ms)

    def found(limit: int, *times: int | None) -> list[tuple[object, object]]:
        return [(one["key"], one["window_start_ms"]) for one in read_entries(builder, store, limit, *times)]

    assert found(9, 20, 20) == [("a", 20), ("b", 20)]
    assert found(1, 20, 20) == [("a", 20)]
    assert (found(9, None, 19), found(9, 21, None)) == ([("a", 10)], [("b", 30)])
    assert len(found(9)) == 4
    written = {"value": 10, "value_base64": base64_of(LONG.serialize(10)), "timestamp_ms": None}
    assert read_entries(builder, store, 1, 10, 10) == [
        {"key": "a", "key_base64": base64_of(b"a"), "window_start_ms": 10, **written}
    ]
    store.close()


def test_should_refuse_a_question_that_does_not_fit_the_kind_of_store() -> None:
    windows, plain = open_store(windows_of()), open_store()
    for wrong in (
        lambda: read_key(windows_of(), windows, b"k", None),
        lambda: read_entries(COUNTS, plain, 1, from_ms=0),
        lambda: read_entries(COUNTS, plain, 1, to_ms=0),
        lambda: read_key(COUNTS, plain, b"k", 5),
        lambda: fetch_windows(COUNTS, plain, b"k", 0, 1, 1),
    ):
        with pytest.raises(QueryProblem, match="window store") as refused:
            wrong()
        assert refused.value.code is QueryCode.INVALID_REQUEST


def test_should_read_a_versioned_store_as_of_a_time(tmp_path: Path) -> None:
    builder = versioned_key_value_store("v", STRING, LONG, history_retention_ms=HOUR_MS)
    store = builder.build()
    store.open(store_context(tmp_path))
    store.put("k", 1, 10)
    store.put("k", 2, 20)
    found = [read_key(builder, store, b"k", None, as_of_ms) for as_of_ms in (None, 19, 9)]
    assert [(each["value"], each["timestamp_ms"]) for each in found] == [(2, 20), (1, 10), (None, None)]
    for wrong, reason in (
        (lambda: read_entries(builder, store, 1), "cannot be listed"),
        (lambda: read_key(COUNTS, store, b"k", None, 1), "no versioned store"),
        (lambda: read_key(builder, store, b"k", 1), "no window store"),
    ):
        with pytest.raises(QueryProblem, match=reason):
            wrong()
    store.close()


def test_should_refuse_to_read_a_store_of_the_users_own_kind() -> None:
    class Own:
        name = "own"
        changelog = None

        def build(self) -> Any:
            raise NotImplementedError

    with pytest.raises(QueryProblem, match="user's own kind"):
        key_bytes(Own(), "k", None)


@given(value=st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_should_show_what_json_reads_back_as_the_same(value: object) -> None:
    builder = of_values(JSON)
    store = open_store(builder)
    if value is not None:
        store.put("k", value)
    assert json.loads(json.dumps(read_key(builder, store, b"k", None)["value"])) == value
    store.close()


def test_should_refuse_to_read_another_kind_of_store_than_the_query_is_for() -> None:
    sessions = session_store("s", STRING, LONG, retention_ms=1)
    for wrong, reason in (
        (lambda: read_key(sessions, None, b"k", None), "session store: ask for /sessions"),
        (lambda: read_entries(sessions, sessions.build(), 1), "session store, which cannot be listed"),
        (lambda: find_sessions(COUNTS, None, b"k", 0, 1, 1), "no session store"),
        (lambda: read_versions(COUNTS, None, b"k", 0, 1, 1), "no versioned store"),
    ):
        with pytest.raises(QueryProblem, match=reason) as refused:
            wrong()
        assert refused.value.code is QueryCode.INVALID_REQUEST
