"""Reads from many threads while a task lives its life: every answer is right, or says that there is none now."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streams_runtime.logs.base import IsolationLevel
from streams_runtime.queries.answers import answer_for_partition, locate_key
from streams_runtime.queries.problems import QueryCode, QueryProblem
from streams_runtime.serdes import LONG, STRING
from streams_runtime.state_stores.builders import key_value_store
from tests.streams_runtime.queries.fake_instance import (
    ACTIVE,
    KEY,
    RESTORING,
    STANDBY,
    STORE,
    FakeInstance,
    location,
    open_store,
)
from tests.streams_runtime.state_stores.surroundings import batch, context

READERS = 6
ROUNDS = 6
WRITES = 2_000
MAY_SAY = {QueryCode.STORE_NOT_READY, QueryCode.INVALID_STATE_STORE_PARTITION, QueryCode.STALE_STORE}


class Readers:
    """Threads that ask for the key until they are told to stop. `answers`: how often each was given."""

    def __init__(self, instance: FakeInstance, max_lag: int | None, is_right: Callable[[object], bool]) -> None:
        self.answers: Counter[str] = Counter()
        self.wrong: list[object] = []
        self._ask = instance, max_lag, is_right
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._read) for _ in range(READERS)]

    def __enter__(self) -> Readers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _read(self) -> None:
        instance, max_lag, is_right = self._ask
        where = locate_key(instance, STORE, KEY, None)
        while not self._stop.is_set():
            try:
                value, _ = answer_for_partition(instance, STORE, where, max_lag, IsolationLevel.READ_COMMITTED, _cat)
            except QueryProblem as problem:
                self.answers[problem.code] += 1
                if problem.code not in MAY_SAY:
                    self.wrong.append(problem)
            else:
                self.answers["value"] += 1
                if not is_right(value):
                    self.wrong.append(value)


def _cat(store: Any) -> object:
    return store.get("cat")


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("max_lag", [None, 0])
def test_should_never_be_wrong_while_a_task_starts_over(tmp_path: Path, persistent: bool, max_lag: int | None) -> None:
    """Corrupt, closed, wiped, opened, half restored, restored, running, standby: the same store object all along."""
    builder = key_value_store(STORE, STRING, LONG, persistent=persistent)
    store = open_store(builder, tmp_path / "0")
    instance = FakeInstance(locations={STORE: location(builder)})
    right, others = LONG.serialize(3), [(b"%d" % number, LONG.serialize(0), 0) for number in range(50)]
    with Readers(instance, max_lag, lambda value: value == 3) as readers:
        for number in range(1, ROUNDS):
            store.restore(batch([*others, (b"cat", LONG.serialize(2), 0)]))
            instance.show(store, ACTIVE, RESTORING, lag=1)
            store.restore(batch([*others, (b"cat", right, 0)]))
            instance.show(store)
            seen = readers.answers["value"]
            while readers.answers["value"] == seen and not readers.wrong:
                threading.Event().wait(0.001)
            instance.show(store, STANDBY, lag=0)
            instance.show(store)
            store.close()
            instance.show_nothing()
            store.open(context(tmp_path / str(number)))
    store.close()
    assert readers.wrong == []
    assert readers.answers["value"] >= ROUNDS - 1
