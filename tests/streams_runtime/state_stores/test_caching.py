"""A store with a record cache: reads see it, a flush writes each changed key once, evictions keep it small."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assignor.types import TaskId
from streams_runtime.logs.record_limits import NO_TIMESTAMP_CHECKS
from streams_runtime.serdes import BYTES, LONG, STRING
from streams_runtime.state_stores.builders import builder_without_caching, key_value_store, window_store
from streams_runtime.state_stores.state_store import StoreContext
from streams_runtime.state_stores.thread_cache import ContextTuple, NamedCache, TaskCache, ThreadCache
from tests.examples import share
from tests.streams_runtime.state_stores.surroundings import (
    RecordedChanges,
    SetClock,
    commit,
    in_another_thread,
    set_flush_listener,
)
from tests.streams_runtime.state_stores.test_key_value_properties import CALLS_OF_A_STORE, Model

PLENTY = 1_000_000
CALLS = st.lists(st.one_of(*CALLS_OF_A_STORE, st.tuples(st.just("commit"))), max_size=40)


class Contexts:
    """The record that a task works on; the test sets it."""

    def __init__(self, clock: SetClock) -> None:
        self._clock = clock

    def record_context(self) -> ContextTuple:
        return self._clock.record_timestamp_ms, (), None, -1, None, 0

    def begin_flush(self) -> int:
        return self._clock.record_timestamp_ms

    def set_context(self, made_by: ContextTuple) -> None:
        self._clock.record_timestamp_ms = made_by[0]

    def end_flush(self, before: int) -> None:
        self._clock.record_timestamp_ms = before


class Cached:
    """`flushed`: key, new and old value of each change that was flushed, and its time."""

    def __init__(self, store: Any, directory: Path, max_bytes: int = PLENTY, *, old: bool = True) -> None:
        self.store = store
        self.changes = RecordedChanges()
        self.clock = SetClock(record_timestamp_ms=1)
        self.thread = ThreadCache(max_bytes)
        self.task = TaskCache(self.thread, Contexts(self.clock))
        self.directory = directory
        self.flushed: list[tuple[Any, Any, Any, int]] = []
        store.open(self.context())
        self.listen(old)

    def context(self, cache: bool = True) -> StoreContext:
        return StoreContext(TaskId(0, 0), self.directory, self.changes, self.clock, cache=self.task if cache else None)

    def listen(self, old: bool = True) -> bool:
        def listener(key: Any, new: Any, before: Any, made_by: ContextTuple) -> None:
            self.flushed.append((key, new, before, made_by[0]))

        return set_flush_listener(self.store, listener, sends_old_values=old)


@pytest.fixture
def cached(tmp_path: Path) -> Iterator[Cached]:
    one = Cached(key_value_store("store", STRING, LONG, persistent=False, caching=True).build(), tmp_path)
    yield one
    one.store.close()


def test_should_let_go_of_what_is_clean_when_the_share_shrinks_and_of_the_rest_after_a_flush(cached: Cached) -> None:
    cached.store.put("a", 1)
    cached.task.flush()
    cached.store.put("b", 1)
    cached.thread.resize(10)
    assert cached.thread.size_bytes == 54
    assert [key for key, *_ in cached.flushed] == ["a"]
    cached.task.flush()
    cached.thread.resize(10)
    assert cached.thread.size_bytes == 0
    assert dict(cached.store.all()) == {"a": 1, "b": 1}


def test_should_keep_what_the_task_reads_and_not_what_others_read(cached: Cached) -> None:
    cached.store.put("a", 1)
    cached.task.flush()
    cached.thread.resize(0)
    cached.thread.resize(PLENTY)
    assert in_another_thread(lambda: cached.store.get("a")) == 1
    assert cached.thread.size_bytes == 0
    assert cached.store.get("a") == 1
    assert cached.thread.size_bytes == 54


def test_should_show_others_what_is_not_flushed_yet(cached: Cached) -> None:
    cached.store.put("a", 1)
    assert in_another_thread(lambda: (cached.store.get("a"), dict(cached.store.all()))) == (1, {"a": 1})


def test_should_never_show_the_value_before_while_one_is_flushed(cached: Cached) -> None:
    seen: list[Any] = []
    cached.store.put("a", 1)
    set_flush_listener(cached.store, lambda *_: seen.append(cached.store.get("a")), sends_old_values=False)
    cached.task.flush()
    cached.store.put("a", None)
    cached.task.flush()
    assert seen == [1, None]


def test_should_stay_dirty_where_a_flush_failed_and_tell_the_same_old_value_again(cached: Cached) -> None:
    cached.store.put("a", 1)
    cached.task.flush()
    cached.store.put("a", 2)
    cached.store.put("b", 2)

    def away(*_: Any) -> None:
        raise TimeoutError

    set_flush_listener(cached.store, away, sends_old_values=True)
    with pytest.raises(TimeoutError):
        cached.task.flush()
    assert cached.store.get("a") == 2
    cached.listen()
    cached.task.flush()
    assert cached.flushed[1:] == [("a", 2, 1, 1), ("b", 2, None, 1)]


def test_should_flush_what_a_flush_changes_in_the_same_commit(cached: Cached) -> None:
    def downstream(key: str, new: Any, *_: Any) -> None:
        if new < 3:
            cached.store.put(key, new + 1)

    set_flush_listener(cached.store, downstream, sends_old_values=False)
    cached.store.put("a", 1)
    cached.task.flush()
    assert not cached.task.is_dirty
    assert [LONG.deserialize(change.value or b"") for change in cached.changes.changes] == [1, 2, 3]


def test_should_keep_the_newest_value_where_a_flush_changes_its_key_and_flushes_again(tmp_path: Path) -> None:
    one = Cached(key_value_store("store", STRING, LONG, persistent=False, caching=True).build(), tmp_path)
    forwarded: list[tuple[str, int, int | None]] = []

    def downstream(key: str, new: int, old: int | None, _made_by: ContextTuple) -> None:
        forwarded.append((key, new, old))
        if (key, new) == ("a", 1):
            one.store.put("a", 2)
            one.thread.resize(1)
            one.store.put("b", 1)

    set_flush_listener(one.store, downstream, sends_old_values=True)
    one.store.put("a", 1)
    one.store.put("c", 1)
    one.task.flush()

    assert forwarded == [("a", 1, None), ("c", 1, None), ("a", 2, 1), ("b", 1, None)]
    assert [one.store.get(key) for key in "abc"] == [2, 1, 1]
    assert [(change.key, LONG.deserialize(change.value or b"")) for change in one.changes.changes] == [
        (b"a", 1),
        (b"c", 1),
        (b"a", 2),
        (b"b", 1),
    ]
    one.store.close()


def test_should_evict_after_a_flush_what_operators_below_put_meanwhile(tmp_path: Path) -> None:
    """A full cache that was flushed again by each put below would call itself once for each key."""
    one = Cached(key_value_store("store", STRING, LONG, persistent=False, caching=True).build(), tmp_path)

    def downstream(key: str, new: int, *_: Any) -> None:
        if not key.endswith("below"):
            one.store.put(f"{key} below", new)

    set_flush_listener(one.store, downstream, sends_old_values=True)
    for number in range(1_000):
        one.store.put(f"{number}", number)
    one.thread.resize(1)
    one.store.put("last", 1)

    assert one.thread.size_bytes == 0
    assert one.store.approximate_num_entries() == 2_002
    assert one.store.get("999 below") == 999
    one.store.close()


def test_should_drop_at_a_close_the_changes_that_no_commit_has_flushed(tmp_path: Path) -> None:
    one = Cached(key_value_store("store", STRING, LONG, caching=True).build(), tmp_path)
    one.store.put("a", 1)
    one.task.flush()
    commit(one.store)
    one.store.put("a", 2)
    one.store.close()
    assert not one.task.is_dirty
    assert one.thread.size_bytes == 0
    one.store.open(one.context(cache=False))
    assert one.store.get("a") == 1
    one.store.close()


def test_should_pass_on_in_a_standby_and_cache_again_in_an_active_task(cached: Cached) -> None:
    cached.store.put("a", 1)
    cached.task.flush()
    cached.store.rebind(cached.context(cache=False))
    assert not cached.listen()
    assert cached.thread.size_bytes == 0
    assert cached.store.get("a") == 1
    cached.store.rebind(cached.context())
    assert cached.listen()
    cached.store.put("a", 2)
    assert len(cached.changes.changes) == 1


def test_should_have_no_cache_unless_asked_for(tmp_path: Path) -> None:
    cached = key_value_store("store", STRING, LONG, persistent=False, caching=True)
    plain = key_value_store("store", STRING, LONG, persistent=False)
    assert builder_without_caching(cached) == plain
    assert builder_without_caching(plain) is plain
    one = Cached(plain.build(), tmp_path)
    assert not one.listen()
    one.store.put("a", 1)
    assert len(one.changes.changes) == 1


@share(0.5)
@given(CALLS, st.sampled_from([1, 100, 150, 300, PLENTY]), st.booleans(), st.booleans())
def test_should_answer_as_a_dict_and_flush_the_last_value_of_each_key(
    calls: list[tuple[Any, ...]], max_bytes: int, persistent: bool, old: bool
) -> None:
    with TemporaryDirectory() as directory:
        store = key_value_store("store", BYTES, BYTES, persistent=persistent, caching=True).build()
        one = Cached(store, Path(directory), max_bytes, old=old)
        model, told = Model(), Told(max_bytes)
        for name, *arguments in calls:
            if name == "commit":
                one.task.flush()
                told.commit(one.flushed, old)
                one.flushed.clear()
            else:
                told.call(model, name, arguments)
                answer = getattr(store, name)(*arguments)
                expected = getattr(model, name)(*arguments)
                assert (answer if answer is None or isinstance(answer, bytes) else list(answer)) == expected
        one.task.flush()
        told.commit(one.flushed, old)
        written: dict[bytes, bytes] = {}
        for change in one.changes.changes:
            if change.value is None:
                written.pop(change.key, None)
            else:
                written[change.key] = change.value
        assert written == model.entries == dict(store.all())
        store.close()
        assert one.thread.size_bytes == 0


class Told:
    """What a commit has to tell: with room for all, the last change of each key in the order of the last changes; else
    changes that lead from the values of the commit before to those of this one.
    """

    def __init__(self, max_bytes: int) -> None:
        self._has_room = max_bytes == PLENTY
        self._before: dict[bytes, bytes] = {}
        self._changed: dict[bytes, bytes | None] = {}

    def call(self, model: Model, name: str, arguments: list[Any]) -> None:
        if name == "put":
            self._change(*arguments)
        elif name == "delete":
            self._change(arguments[0], None)
        elif name == "put_if_absent" and model.get(arguments[0]) is None:
            self._change(*arguments)
        elif name in ("put_all", "put_many"):
            for key, value in arguments[0] if name == "put_all" else zip(*arguments, strict=True):
                self._change(key, value)

    def commit(self, flushed: list[tuple[Any, Any, Any, int]], with_old: bool) -> None:
        before = dict(self._before)
        for key, new, old, _ in flushed:
            assert old == (before.get(key) if with_old else None)
            before.pop(key, None)
            if new is not None:
                before[key] = new
        expected = {key: value for key, value in self._changed.items() if value is not None or key in self._before}
        if self._has_room:
            assert [(key, new) for key, new, *_ in flushed] == list(expected.items())
        for key, value in self._changed.items():
            assert before.get(key) == value
        self._before = before
        self._changed.clear()

    def _change(self, key: bytes, value: bytes | None) -> None:
        self._changed.pop(key, None)
        self._changed[key] = value


@pytest.mark.parametrize("persistent", [False, True])
def test_should_find_no_window_that_starts_before_zero_or_too_late(tmp_path: Path, persistent: bool) -> None:
    kind = window_store("store", STRING, LONG, retention_ms=100, window_size_ms=10, persistent=persistent, caching=True)
    one = Cached(kind.build(), tmp_path)
    one.store.put("a", 1, 0)
    assert [one.store.fetch("a", start_ms) for start_ms in (-10, -1, 0, 2**63)] == [None, None, 1, None]


def test_should_not_cache_a_store_that_retains_duplicates(tmp_path: Path) -> None:
    kind = window_store(
        "d", STRING, LONG, retention_ms=100, window_size_ms=10, retain_duplicates=True, persistent=False, caching=True
    )
    one = Cached(kind.build(), tmp_path)
    one.store.put("a", 1, 10)
    one.store.put("a", 2, 10)

    assert [change.value for change in one.changes.changes] == [LONG.serialize(1), LONG.serialize(2)]


class Below:
    """A store whose cache is tested alone. `content`: what the cache reads; `written`: what it has flushed."""

    always_accepted_bytes = -1
    timestamp_checks = NO_TIMESTAMP_CHECKS

    def __init__(self, *, caches_reads: bool = False) -> None:
        self._caches_reads = caches_reads
        self.content: dict[bytes, bytes] = {}
        self.written: list[tuple[bytes, bytes | None]] = []

    def cached_in(self, thread: ThreadCache) -> NamedCache:
        task = TaskCache(thread, Contexts(SetClock(record_timestamp_ms=5)))
        return task.add(self, key_overhead=0, caches_reads=self._caches_reads)

    def check(self, key: bytes, value: bytes | None) -> None:
        """Every change is taken."""

    def read(self, key: bytes) -> bytes | None:
        return self.content.get(key)

    def put_checked(self, key: bytes, value: bytes | None, record_ms: int) -> None:
        self.written.append((key, value))


USES = st.lists(st.tuples(st.sampled_from(["put", "read", "put clean"]), st.integers(0, 9)), max_size=60)


CLEAN = [("put clean", number) for number in range(4)]


@example([*CLEAN[:3], ("read", 1), CLEAN[3]], 2)
@example([*CLEAN[:2], ("read", 0), ("read", 1), *CLEAN[2:]], 2)
@given(USES, st.integers(1, 8))
def test_should_evict_what_was_not_used_for_the_longest_time(uses: list[tuple[str, int]], room: int) -> None:
    below = Below(caches_reads=True)
    cache = below.cached_in(ThreadCache(room * 47))  # 45 of overhead, 1 of the key, 1 of the value
    in_order: list[bytes] = []
    for use, number in uses:
        key = b"%d" % number
        below.content = {}
        if use == "read":
            if cache.get(key) is None:
                continue
        elif use == "put":
            cache.put(key, b"x")
        elif cache.peek(key) is not None:
            continue
        else:
            below.content = {key: b"x"}
            assert cache.get(key) == b"x"
        in_order = [*(each for each in in_order if each != key), key][-room:]
        assert {key for key, _ in cache.items()} == set(in_order)


def test_should_know_the_size_of_the_changes_that_a_flush_will_make() -> None:
    thread, below = ThreadCache(PLENTY), Below()
    cache = below.cached_in(thread)
    assert thread.unflushed_bytes(200) == 0
    cache.put(b"a", b"1")
    cache.put(b"b", b"2")
    assert thread.unflushed_bytes(200) == thread.size_bytes + 2 * 200
    cache.flush()
    assert thread.size_bytes > 0, "clean values stay"
    assert thread.unflushed_bytes(200) == 0


def test_should_evict_at_a_change_that_takes_no_more_room_than_the_one_before() -> None:
    """The cache may take too much already: while an eviction of another store forwards, or after the share shrank."""
    thread, below = ThreadCache(PLENTY), Below()
    cache = below.cached_in(thread)
    cache.put(b"k", b"1")
    thread.resize(1)
    assert below.written == []

    cache.put(b"k", b"2")
    assert (below.written, thread.size_bytes) == ([(b"k", b"2")], 0)


@pytest.mark.parametrize("persistent", [True, False])
def test_should_read_windows_of_cache_and_store_by_key_and_backwards(tmp_path: Path, persistent: bool) -> None:
    kind = window_store("store", STRING, LONG, retention_ms=100, window_size_ms=10, persistent=persistent, caching=True)
    cached = Cached(kind.build(), tmp_path, old=False)
    store = cached.store
    for key, value, start_ms in (("a", 1, 10), ("b", 2, 10), ("c", 3, 20), ("b", 4, 20)):
        store.put(key, value, start_ms)
    cached.task.flush()
    for key, changed, start_ms in (("b", None, 10), ("b", 5, 30), ("c", 6, 20), ("d", 7, 10)):
        store.put(key, changed, start_ms)
    assert list(store.fetch_range("b", 0, 30)) == [(20, 4), (30, 5)]
    assert list(store.fetch_range("b", 0, 30, reverse=True)) == [(30, 5), (20, 4)]
    between = [("b", 20, 4), ("b", 30, 5), ("c", 20, 6)]
    assert sorted((*window[:2], value) for window, value in store.fetch_keys("b", "c", 0, 30)) == between
    assert sorted((*window[:2], value) for window, value in store.fetch_keys("b", "c", 0, 30, reverse=True)) == between
    assert list(store.fetch_keys("c", "b", 0, 30)) == []
    everything = sorted([*between, ("a", 10, 1), ("d", 10, 7)])
    assert sorted((*window[:2], value) for window, value in store.all()) == everything
    assert list(store.all(reverse=True)) == list(store.all())[::-1]
    store.close()
