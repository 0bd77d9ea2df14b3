"""Each query reads the committed state of a store, or also the changes since the last commit."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from assignor.errors import InputError
from streams_runtime.configs import ProcessingGuarantee, StreamsConfig
from streams_runtime.logs.base import IsolationLevel
from streams_runtime.membership.member_events import PartitionHosts
from streams_runtime.queries.client import StateStoreClient
from streams_runtime.queries.routes import create_query_app
from streams_runtime.queries.server import QueryServer
from streams_runtime.serdes import LONG, STRING
from streams_runtime.state_stores.builders import (
    key_value_store,
    session_store,
    versioned_key_value_store,
    window_store,
)
from streams_runtime.state_stores.rocksdb import RocksDBStore
from streams_runtime.state_stores.state_store import Windowed, read_only
from streams_runtime.state_stores.versioned import VersionedRecord
from tests.streams_runtime.queries.fake_instance import (
    ACTIVE,
    KEY,
    STORE,
    TASK,
    FakeInstance,
    counts,
    hosts,
    location,
    open_store,
)
from tests.streams_runtime.queries.serving import serving
from tests.streams_runtime.running_group import AT_LEAST_ONCE, Group
from tests.streams_runtime.word_counting import STORE as COUNTS
from tests.streams_runtime.word_counting import TIMEOUT_S, wait_for

COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


def counts_of_cat(directory: Path) -> FakeInstance:
    """An instance with a store in which `cat` is 3 in the committed state, and 4 with all changes."""
    builder = key_value_store(STORE, STRING, LONG)
    store = open_store(builder, directory)
    store.put("cat", 3)
    store.commit(None)
    store.put("cat", 4)
    return FakeInstance(locations={STORE: location(builder)}).show(store)


def windows_of_cat(directory: Path) -> FakeInstance:
    """An instance with a store that has a committed window at 0, and an uncommitted window at 10."""
    builder = window_store(STORE, STRING, LONG, retention_ms=3_600_000, window_size_ms=10)
    store = open_store(builder, directory)
    store.put("cat", 3, 0)
    store.commit(None)
    store.put("cat", 4, 10)
    return FakeInstance(locations={STORE: location(builder)}).show(store)


@pytest.mark.parametrize(
    ("guarantee", "usual"),
    [(ProcessingGuarantee.AT_LEAST_ONCE, UNCOMMITTED), (ProcessingGuarantee.EXACTLY_ONCE_V2, COMMITTED)],
)
def test_should_read_committed_state_by_default_only_under_exactly_once(
    guarantee: ProcessingGuarantee, usual: IsolationLevel
) -> None:
    configs = StreamsConfig("words", "memory:words", processing_guarantee=guarantee)

    assert configs.query_isolation_level is usual
    for level in IsolationLevel:
        chosen = configs.with_dotted({"isolation.level": str(level)})
        assert chosen.query_isolation_level is level
        assert chosen.isolation_level is usual  # of the consumers, which the config does not change


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("isolation.level", "serializable", "must be one of read_uncommitted, read_committed"),
        ("enable.transactional.statestores", "perhaps", "must be true or false"),
        ("statestore.uncommitted.max.bytes", -2, "must be from -1 to"),
        ("state.checkpoint.file", 1, "must be true or false"),
    ],
)
def test_should_refuse_wrong_values_of_the_configs_of_store_commits(key: str, value: object, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        StreamsConfig("words", "memory:words").with_dotted({key: value})


LEVELS = [(None, 3, COMMITTED), (COMMITTED, 3, COMMITTED), (UNCOMMITTED, 4, UNCOMMITTED)]
"""What a query asks for; the value and the level of the answer."""


@pytest.mark.parametrize(("asked", "value", "level"), LEVELS)
def test_should_read_what_the_query_chooses_or_the_committed_state(
    tmp_path: Path, asked: IsolationLevel | None, value: int, level: IsolationLevel
) -> None:
    http = TestClient(create_query_app(counts_of_cat(tmp_path)))
    chosen = {} if asked is None else {"isolation_level": str(asked)}

    one = http.get(f"/v1/stores/{STORE}/key", params={"key": "cat", **chosen}).json()
    many = http.get(f"/v1/stores/{STORE}/entries", params=chosen).json()

    assert (one["value"], one["isolation_level"]) == (value, level)
    assert (many["tasks"][str(TASK)][0]["value"], many["isolation_level"]) == (value, level)


def test_should_read_the_level_of_the_instance_when_the_query_chooses_none(tmp_path: Path) -> None:
    instance = counts_of_cat(tmp_path)
    instance.usual_isolation = UNCOMMITTED

    assert TestClient(create_query_app(instance)).get(f"/v1/stores/{STORE}/key?key=cat").json()["value"] == 4


def test_should_admit_that_a_store_without_committed_state_shows_every_change() -> None:
    http = TestClient(create_query_app(FakeInstance().show(counts(cat=4))))

    answer = http.get(f"/v1/stores/{STORE}/key?key=cat&isolation_level=read_committed").json()

    assert (answer["value"], answer["isolation_level"]) == (4, "read_uncommitted")


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[StateStoreClient]:
    instance = windows_of_cat(tmp_path)
    with closing(QueryServer("127.0.0.1:0")) as server:
        server.start(instance)
        instance.maps = PartitionHosts(hosts(str(server.endpoint)))
        with StateStoreClient([str(server.endpoint)]) as client:
            yield client


@pytest.mark.parametrize(("asked", "starts", "level"), [(None, [0], COMMITTED), (UNCOMMITTED, [0, 10], UNCOMMITTED)])
def test_should_choose_the_level_in_the_client(
    stores: StateStoreClient, asked: IsolationLevel | None, starts: list[int], level: IsolationLevel
) -> None:
    found = stores.windows(STORE, KEY, 0, 20, isolation_level=asked)
    newest = stores.get(STORE, KEY, window_start_ms=10, isolation_level=asked)

    assert ([one.start_ms for one in found.windows], found.source.isolation_level) == (starts, level)
    assert (newest.value is not None, newest.source.isolation_level) == (10 in starts, level)


def test_should_leave_uncommitted_sessions_and_versions_out_of_the_committed_state(tmp_path: Path) -> None:
    sessions = session_store("sessions", STRING, LONG, retention_ms=3_600_000, caching=True)
    versions = versioned_key_value_store("versions", STRING, LONG, history_retention_ms=3_600_000)
    cat_sessions, cat_versions = open_store(sessions, tmp_path), open_store(versions, tmp_path)
    for at_ms in (0, 10):
        cat_sessions.put(Windowed("cat", at_ms, at_ms), 3)
        cat_versions.put("cat", 3, at_ms)
        if at_ms == 0:
            cat_sessions.flush()
            cat_sessions.commit(None)
            cat_versions.commit(None)
    locations = {each.name: location(each) for each in (sessions, versions)}
    instance = FakeInstance(locations=locations).show(cat_sessions).show_also(cat_versions, ACTIVE, TASK)
    http = TestClient(create_query_app(instance))

    def found(kind: str, field: str, level: IsolationLevel) -> list[int]:
        answer = http.get(f"/v1/stores/{kind}/{kind}", params={"key": "cat", "isolation_level": str(level)}).json()
        assert answer["isolation_level"] == level
        return [one[field] for one in answer[kind]]

    assert found("sessions", "session_start_ms", COMMITTED) == [0]
    assert found("sessions", "session_start_ms", UNCOMMITTED) == [0, 10]
    assert found("versions", "timestamp_ms", COMMITTED) == [0]
    assert found("versions", "timestamp_ms", UNCOMMITTED) == [10, 0]
    cat_sessions.close()
    cat_versions.close()


def view_of(store: Any, level: IsolationLevel) -> Any:
    return read_only(store, level)


def before_the_next_scan(monkeypatch: pytest.MonkeyPatch, step: Callable[[], object]) -> None:
    """Does something after a query has chosen the segments to read, and before it reads them."""
    scan_ranges, steps = RocksDBStore.scan_ranges, iter([step])

    def scan(store: RocksDBStore, *ranges: Any, **more: Any) -> Any:
        next(steps, lambda: None)()
        return scan_ranges(store, *ranges, **more)

    monkeypatch.setattr(RocksDBStore, "scan_ranges", scan)


def test_should_find_a_session_that_a_commit_moves_to_a_new_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(session_store(STORE, STRING, LONG, retention_ms=600_000), tmp_path)
    store.put(Windowed("cat", 0, 10), 3)
    store.commit(None)

    def merge() -> None:
        store.remove(Windowed("cat", 0, 10))
        store.put(Windowed("cat", 0, 500_000), 4)
        store.commit(None)

    before_the_next_scan(monkeypatch, merge)
    assert list(view_of(store, COMMITTED).fetch("cat")) == [(Windowed("cat", 0, 500_000), 4)]
    store.close()


@pytest.mark.parametrize("level", IsolationLevel)
def test_should_find_a_version_that_a_put_moves_to_a_new_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: IsolationLevel
) -> None:
    store = open_store(versioned_key_value_store(STORE, STRING, LONG, history_retention_ms=3_600_000), tmp_path)
    store.put("cat", 3, 0)
    store.commit(None)

    def put() -> None:
        store.put("cat", 4, 1_000)
        store.commit(None)

    view = view_of(store, level)
    before_the_next_scan(monkeypatch, put)
    assert view.versions("cat") == [VersionedRecord(4, 1_000), VersionedRecord(3, 0, 1_000)]
    assert view.get("cat", 500) == VersionedRecord(3, 0)
    store.close()


def test_should_find_the_windows_of_one_commit_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = window_store(STORE, STRING, LONG, retention_ms=600_000, window_size_ms=10)
    for name, is_one_key in (("one", True), ("all", False)):
        store = open_store(builder, tmp_path / name)
        store.put("cat", 3, 0)
        store.commit(None)

        def put(store: Any = store) -> None:
            store.put("cat", 4, 0)
            store.put("cat", 4, 500_000)
            store.commit(None)

        with monkeypatch.context() as patched:
            before_the_next_scan(patched, put)
            view = view_of(store, COMMITTED)
            windows = view.fetch_range("cat", 0, 600_000) if is_one_key else view.fetch_all(0, 600_000)
            assert [value for _, value in windows] == [4, 4]
        store.close()


@pytest.mark.parametrize("group", [AT_LEAST_ONCE], indirect=True)
def test_should_show_what_a_real_instance_has_not_committed_yet(group: Group) -> None:
    group.declare(standbys=0)
    with (
        serving(group.application(commit_interval_ms=60_000), group.client) as (endpoint, instance),
        StateStoreClient([str(endpoint)], timeout_s=TIMEOUT_S) as client,
    ):
        group.write(["cat"])
        wait_for(lambda: client.get(COUNTS, KEY).value is not None, instance.status)

        newest, committed = client.get(COUNTS, KEY), client.get(COUNTS, KEY, isolation_level=COMMITTED)
    assert (newest.value, newest.source.isolation_level) == (LONG.serialize(1), UNCOMMITTED)
    assert (committed.value, committed.source.isolation_level) == (None, COMMITTED)
