"""Stores of a stream thread that runs in another process, for those who read them here.

Rules:
- A read is made in the process that has the store, and counts only if the thread has shown the same snapshot before and
  after it, and the store is open then. Otherwise SnapshotReplaced is raised here, once the newer snapshot is here, too.
- One read of a thread's stores is on its way at a time. What an iterator gives comes in parts.

Source: `QueryableStoreProvider`, whose stores are those of threads of one process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, NamedTuple

from assignor.types import TaskId
from streams_runtime.common.errors import InvalidStateStore, SnapshotReplaced
from streams_runtime.logs.base import RecordBatch
from streams_runtime.state_stores.base import StoreContext
from streams_runtime.thread_processes.carried_errors import CarriedError, carried
from streams_runtime.thread_processes.channel import Channel
from streams_runtime.threads.thread_status import TaskCopy

PART = 500
"""So many entries of an iterator come at a time."""

_READS = frozenset(
    {
        "get", "range", "reverse_range", "all", "prefix_scan", "approximate_num_entries",
        "fetch", "fetch_range", "fetch_all",
    }
)  # fmt: skip


class StorePlace(NamedTuple):
    """A store of a task in the thread's snapshot of this number."""

    number: int
    task_id: TaskId
    store: str


@dataclass(frozen=True, slots=True)
class ReadStore:
    place: StorePlace
    method: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ReadOn:
    """The next part of an iterator; `part` 0: nobody wants it any more."""

    place: StorePlace
    iterator: int
    part: int


@dataclass(frozen=True, slots=True)
class ReadAnswered:
    """`iterator`: the number of an iterator whose first entries are `value`, and that may have more."""

    value: Any = None
    iterator: int | None = None
    error: CarriedError | None = None


class StoreReader:
    """Asks the process of one thread. `wait_for_newer`: returns when a snapshot with a higher number is here."""

    def __init__(self, channel: Channel, wait_for_newer: Callable[[int], None]) -> None:
        self._channel = channel
        self._wait_for_newer = wait_for_newer
        self._turn = threading.Lock()

    def read(self, place: StorePlace, method: str, arguments: tuple[Any, ...]) -> Any:
        """Raises SnapshotReplaced, InvalidStateStore, and what the read raises there."""
        answered = self._ask(place, ReadStore(place, method, arguments))
        return answered.value if answered.iterator is None else self._entries(place, answered)

    def _entries(self, place: StorePlace, answered: ReadAnswered) -> Iterator[Any]:
        iterator = answered.iterator
        assert iterator is not None
        try:
            while answered.value:
                yield from answered.value
                answered = self._ask(place, ReadOn(place, iterator, PART))
            iterator = None  # it has come to its end there as well
        finally:
            if iterator is not None:
                self._give_up(place, iterator)

    def _give_up(self, place: StorePlace, iterator: int) -> None:
        try:
            self._ask(place, ReadOn(place, iterator, 0))
        except InvalidStateStore:
            return  # so there is no iterator any more

    def _ask(self, place: StorePlace, question: ReadStore | ReadOn) -> ReadAnswered:
        try:
            with self._turn:
                self._channel.send(question)
                answered: ReadAnswered = self._channel.receive()
        except (OSError, EOFError) as gone:
            raise InvalidStateStore(f"the process that had store {place.store!r} has ended", place.task_id) from gone
        if answered.error is None:
            return answered
        error = answered.error.error()
        if isinstance(error, SnapshotReplaced):
            self._wait_for_newer(place.number)
        raise error


class RemoteStore:
    """The reads of a store. `StateStore` for those who look at it; whoever writes is where the store is."""

    def __init__(self, reader: StoreReader, place: StorePlace, *, persistent: bool) -> None:
        self.name = place.store
        self.persistent = persistent
        self._reader = reader
        self._place = place

    @property
    def is_open(self) -> bool:
        """As far as its snapshot is concerned: a read of a closed store is found out where it is made."""
        return True

    def get(self, key: Any) -> Any:
        return self._reader.read(self._place, "get", (key,))

    def range(self, start: Any, end: Any) -> Iterator[Any]:
        return self._entries("range", start, end)

    def reverse_range(self, start: Any, end: Any) -> Iterator[Any]:
        return self._entries("reverse_range", start, end)

    def all(self) -> Iterator[Any]:
        return self._entries("all")

    def prefix_scan(self, prefix: bytes) -> Iterator[Any]:
        return self._entries("prefix_scan", prefix)

    def approximate_num_entries(self) -> int:
        return int(self._reader.read(self._place, "approximate_num_entries", ()))

    def fetch(self, key: Any, start_ms: int) -> Any:
        return self._reader.read(self._place, "fetch", (key, start_ms))

    def fetch_range(self, key: Any, from_ms: int, to_ms: int) -> Iterator[Any]:
        return self._entries("fetch_range", key, from_ms, to_ms)

    def fetch_all(self, from_ms: int, to_ms: int) -> Iterator[Any]:
        return self._entries("fetch_all", from_ms, to_ms)

    def open(self, context: StoreContext) -> None:
        raise self._only_read()

    def rebind(self, context: StoreContext) -> None:
        raise self._only_read()

    def restore(self, batch: RecordBatch) -> None:
        raise self._only_read()

    def flush(self) -> None:
        raise self._only_read()

    def close(self) -> None:
        raise self._only_read()

    def _entries(self, method: str, *arguments: Any) -> Iterator[Any]:
        found: Iterator[Any] = self._reader.read(self._place, method, arguments)
        return found

    def _only_read(self) -> InvalidStateStore:
        return InvalidStateStore(
            f"store {self.name!r} is in another process, and can only be read", self._place.task_id
        )


class StoreAnswers:
    """Reads the stores that are here, for another process. One thread calls `answer`; another one calls `show`."""

    def __init__(self) -> None:
        self._shown: tuple[int, tuple[TaskCopy, ...]] = (0, ())
        self._iterators: dict[int, Iterator[Any]] = {}
        self._numbers = count(1)

    def show(self, number: int, copies: tuple[TaskCopy, ...]) -> None:
        """From now on only what is read of the snapshot of this number counts."""
        self._shown = number, copies

    def answer(self, question: ReadStore | ReadOn) -> ReadAnswered:
        try:
            return self._read(question) if isinstance(question, ReadStore) else self._read_on(question)
        except Exception as error:
            return ReadAnswered(error=carried(error))

    def _read(self, question: ReadStore) -> ReadAnswered:
        assert question.method in _READS, question.method
        store: Any = self._store(question.place)
        found = getattr(store, question.method)(*question.arguments)
        if not isinstance(found, Iterator):
            self._store(question.place)  # it is still there, and open
            return ReadAnswered(found)
        number = next(self._numbers)
        self._iterators[number] = found
        return self._read_on(ReadOn(question.place, number, PART))

    def _read_on(self, question: ReadOn) -> ReadAnswered:
        found = self._iterators.pop(question.iterator, None)
        self._store(question.place)
        part = [] if found is None else list(islice(found, question.part))
        self._store(question.place)
        if found is not None and part:
            self._iterators[question.iterator] = found
        return ReadAnswered(part, question.iterator)

    def _store(self, place: StorePlace) -> Any:
        """Raises SnapshotReplaced."""
        number, copies = self._shown
        for copy in copies if number == place.number else ():
            store = copy.stores.get(place.store)
            if copy.task_id == place.task_id and store is not None and store.is_open:
                return store
        raise SnapshotReplaced(f"store {place.store!r} has changed hands or state meanwhile", place.task_id)
