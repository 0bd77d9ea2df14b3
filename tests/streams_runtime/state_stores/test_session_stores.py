"""Session stores, on disk and in memory: the same sessions from both. Kafka's: `AbstractSessionBytesStoreTest`."""

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from assignor.types import JAVA_LONG_MAX
from streams_runtime import STRING, IsolationLevel, StreamsRuntimeError, Windowed, session_store
from streams_runtime.common.errors import ChangelogOfAnotherKind
from streams_runtime.state_stores import known_keys
from streams_runtime.state_stores.session import SessionStore
from streams_runtime.state_stores.session_keys import session_key
from streams_runtime.state_stores.state_store import read_only
from tests.streams_runtime.state_stores.surroundings import RecordedChanges, as_batch, batch, commit, context

RETENTION_MS = 200_000
SEGMENT_MS = RETENTION_MS // 2
Store = SessionStore[str, str]
Open = Callable[..., Store]
Sessions = list[tuple[Windowed[str], str]]


def on_disk(*, time_ordered: bool = False) -> Store:
    return session_store("sessions", STRING, STRING, retention_ms=RETENTION_MS, time_ordered=time_ordered).build()


@pytest.fixture(params=[True, False], ids=["rocksdb", "in_memory"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    opened: list[Store] = []

    def open_one(
        changes: RecordedChanges | None = None, expired: Callable[[str], None] | None = None, directory: str = "one"
    ) -> Store:
        store = session_store("sessions", STRING, STRING, retention_ms=RETENTION_MS, persistent=request.param).build()
        surroundings = context(tmp_path / directory, changes)
        store.open(surroundings if expired is None else replace(surroundings, expired=expired))
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        store.close()


def filled(store: Store) -> Store:
    for key, start_ms, end_ms in (("a", 10, 20), ("a", 30, 40), ("ab", 15, 35), ("b", 5, SEGMENT_MS + 5)):
        store.put(Windowed(key, start_ms, end_ms), f"{key}{start_ms}")
    return store


def starts(sessions: Iterator[tuple[Windowed[str], str]]) -> list[tuple[str, int]]:
    return [(session.key, session.start_ms) for session, _ in sessions]


@pytest.mark.parametrize(
    "earliest_end_ms, latest_start_ms, expected",
    [(0, 100, [10, 30]), (20, 30, [10, 30]), (21, 30, [30]), (0, 29, [10]), (41, 100, []), (-5, -1, [])],
)
def test_should_find_the_sessions_of_one_key(
    open_store: Open, earliest_end_ms: int, latest_start_ms: int, expected: list[int]
) -> None:
    store = filled(open_store())
    found = [start_ms for _, start_ms in starts(store.find_sessions("a", earliest_end_ms, latest_start_ms))]
    reverse = [
        start_ms for _, start_ms in starts(store.find_sessions("a", earliest_end_ms, latest_start_ms, reverse=True))
    ]
    assert (found, reverse) == (expected, expected[::-1])


def test_should_read_single_sessions_ranges_of_keys_and_ranges_of_time(open_store: Open) -> None:
    store = filled(open_store())
    assert store.fetch_session("a", 10, 20) == "a10"
    assert store.fetch_session("a", 10, 21) is store.fetch_session("a", 20, 10) is None
    assert sorted(starts(store.fetch_keys("a", "ab"))) == [("a", 10), ("a", 30), ("ab", 15)]
    assert starts(store.fetch_keys(None, "a", reverse=True)) == [("a", 30), ("a", 10)]
    assert starts(store.find_sessions_by_end(20, 40)) == [("a", 10), ("ab", 15), ("a", 30)]


def test_should_find_a_key_that_is_the_beginning_of_the_last_key_of_a_range(open_store: Open) -> None:
    """The last key goes on with bytes that are lower than the bytes of a session's end."""
    store = filled(open_store())
    assert starts(store.fetch_keys("a", "a" + 8 * "\0")) == [("a", 10), ("a", 30)]


def test_should_delete_sessions_by_none_and_by_remove(open_store: Open) -> None:
    store = filled(open_store())
    store.put(Windowed("a", 10, 20), None)
    store.remove(Windowed("a", 30, 40))
    store.remove(Windowed("none", 30, 40))
    assert starts(store.fetch("a")) == []


@pytest.mark.parametrize("start_ms, end_ms", [(-1, 5), (6, 5), (0, JAVA_LONG_MAX + 1)])
def test_should_refuse_sessions_that_cannot_be(open_store: Open, start_ms: int, end_ms: int) -> None:
    with pytest.raises(StreamsRuntimeError, match="no session can be"):
        open_store().put(Windowed("a", start_ms, end_ms), "x")


def test_should_restore_what_it_has_logged(open_store: Open) -> None:
    changes = RecordedChanges()
    store = filled(open_store(changes))
    store.remove(Windowed("a", 10, 20))
    assert changes.changes[0].key == session_key(b"a", 10, 20) == b"a" + (20).to_bytes(8) + (10).to_bytes(8)
    restored = open_store(directory="two")
    restored.restore(as_batch(changes.changes))
    assert sorted(restored.fetch_keys(None, None)) == sorted(store.fetch_keys(None, None))


def test_should_refuse_a_changelog_of_another_kind(open_store: Open) -> None:
    with pytest.raises(ChangelogOfAnotherKind, match="a session store"):
        open_store().restore(batch([(b"key", b"value", 1)]))


def test_should_hide_expired_sessions_and_count_only_puts(open_store: Open) -> None:
    expired: list[str] = []
    store = filled(open_store(expired=expired.append))
    store.put(Windowed("new", 0, 20 + RETENTION_MS), "x")
    assert starts(store.fetch("a")) == [("a", 30)]
    store.put(Windowed("new", 0, 10 * RETENTION_MS), "x")
    store.put(Windowed("a", 30, 40), "late")
    store.remove(Windowed("a", 30, 40))
    assert expired == ["sessions"]
    assert starts(store.fetch_keys(None, None)) == [("new", 0)]


def test_should_keep_only_committed_sessions_on_disk(tmp_path: Path) -> None:
    store = on_disk()
    store.open(context(tmp_path))
    store.put(Windowed("a", 1, 2), "committed")
    commit(store, 7)
    store.put(Windowed("a", 1, 5), "uncommitted")
    committed: Store = read_only(store, IsolationLevel.READ_COMMITTED)  # type: ignore[assignment]
    assert starts(committed.find_sessions_by_end(0, 9)) == starts(committed.fetch("a")) == [("a", 1)]
    assert (committed.fetch_session("a", 1, 5), store.fetch_session("a", 1, 5)) == (None, "uncommitted")
    store.close()
    store.open(context(tmp_path))
    assert list(store.fetch("a")) == [(Windowed("a", 1, 2), "committed")]
    store.close()


def test_should_make_and_delete_the_index_by_time_of_an_old_store(tmp_path: Path) -> None:
    expected = [("a", 10), ("ab", 15), ("a", 30), ("b", 5)]
    for time_ordered in (False, True, True, False):
        store = on_disk(time_ordered=time_ordered)
        store.open(context(tmp_path))
        filled(store)
        commit(store)
        assert starts(store.find_sessions_by_end(0, SEGMENT_MS + 5)) == expected
        store.remove(Windowed("b", 5, SEGMENT_MS + 5))
        assert starts(store.find_sessions_by_end(0, SEGMENT_MS + 5)) == expected[:-1]
        store.close()


@pytest.mark.parametrize("isolation_level", IsolationLevel)
def test_should_find_a_session_that_is_merged_while_another_thread_reads_in_the_order_of_time(
    isolation_level: IsolationLevel, tmp_path: Path
) -> None:
    store = on_disk(time_ordered=True)
    store.open(context(tmp_path))
    commit(filled(store))
    view: Store = read_only(store, isolation_level)  # type: ignore[assignment]
    with ThreadPoolExecutor(1) as other:
        found = other.submit(view.find_sessions_by_end, 0, JAVA_LONG_MAX).result()
        first = other.submit(next, found).result()
        store.remove(Windowed("a", 30, 40))
        store.put(Windowed("a", 30, 90), "merged")
        commit(store)
        rest = other.submit(list, found).result()
    assert starts(iter([first, *rest])) == [("a", 10), ("ab", 15), ("a", 30), ("b", 5)]
    store.close()


def test_should_restore_the_index_by_time(tmp_path: Path) -> None:
    changes = RecordedChanges()
    store = on_disk(time_ordered=True)
    store.open(context(tmp_path / "one", changes))
    filled(store).remove(Windowed("a", 10, 20))
    restored = on_disk(time_ordered=True)
    restored.open(context(tmp_path / "two"))
    restored.restore(as_batch(changes.changes))
    assert starts(restored.find_sessions_by_end(0, JAVA_LONG_MAX)) == [("ab", 15), ("a", 30), ("b", 5)]
    store.close()
    restored.close()


@pytest.mark.parametrize(("most_known", "most_record_keys"), [(1_000, 1_000), (20, 1_000), (1_000, 2)])
def test_should_find_the_same_sessions_on_disk_as_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_known: int, most_record_keys: int
) -> None:
    """After commits and reopening. `most_known`: of how many sessions of a key the store remembers the keys.
    `most_record_keys`: of how many record keys the store remembers sessions.
    """
    monkeypatch.setattr(known_keys, "MAX_KNOWN_KEYS", most_known)
    monkeypatch.setattr(known_keys, "MAX_KNOWN_RECORD_KEYS", most_record_keys)
    drawn = random.Random(7)
    changes = RecordedChanges()
    disk, memory = on_disk(), session_store("s", STRING, STRING, retention_ms=RETENTION_MS, persistent=False).build()
    disk.open(context(tmp_path, changes))
    memory.open(context(tmp_path))
    now_ms = 0
    for step in range(3_000):
        now_ms += drawn.choice((0, 1, 100, SEGMENT_MS // 50))
        end_ms = max(0, now_ms - drawn.randrange(300))
        session = Windowed(drawn.choice(("a", "a", "a", "ab", "b")), max(0, end_ms - drawn.randrange(9)), end_ms)
        value = None if drawn.random() < 0.1 else str(step)
        for store in (disk, memory):
            store.put(session, value)
        if step % 500 == 499:
            disk.commit(step)
            disk.close()
            disk.open(context(tmp_path, changes))
            # the store has forgotten its stream time, and expires no session before it has one again
            for store in (disk, memory):
                store.put(Windowed("z", now_ms, now_ms), "z")
        if step % 7 == 0:
            bounds = (end_ms - drawn.randrange(1_000), end_ms + drawn.randrange(-50, 50))
            found = [list(store.find_sessions(session.key, *bounds)) for store in (disk, memory)]
            assert found[0] == found[1]
    everything = [sorted(store.fetch_keys(None, None)) for store in (disk, memory)]
    assert everything[0] == everything[1]
    assert len(list(disk.fetch("a"))) > 100
    disk.close()
