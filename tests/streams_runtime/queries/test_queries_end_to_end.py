"""Real instances in several processes; one comes, one is killed; questions all along: right answers or clear errors.

Words are of two kinds: settled ones, all counted before anybody asks, whose only right answer is their count; and
moving ones, written all along, whose right answers lie between one and what has been written.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from assignor.types import TopicPartition
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.instance.streams_instance import StreamsInstance
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.logs.base import Log
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.queries.client import QueryFailed, StateStoreClient
from streams_runtime.queries.query_results import StoreValue
from streams_runtime.serdes import LONG
from tests.streams_runtime.queries.serving import InstanceProcess, fast_application, serving
from tests.streams_runtime.running_group import EXACTLY_ONCE, running_group
from tests.streams_runtime.word_counting import LINES, PARTITIONS, STORE, TEXT, TIMEOUT_S, wait_for

SETTLED = {f"settled{number}": number % 3 + 2 for number in range(30)}
MOVING = [f"moving{number}" for number in range(6)]
ACCEPTED_LAGS = (None, None, 0, 1_000_000)
ALL_STORE_TASKS = {f"1_{number}" for number in range(PARTITIONS)}


class Writer:
    """Writes moving words until it is stopped. `written`: counted before they are sent."""

    def __init__(self, log: Log) -> None:
        self.written: Counter[str] = Counter()
        self._producer = log.producer()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def write(self, words: list[str]) -> None:
        self.written.update(words)
        for number, word in enumerate(words):
            self._producer.send(TopicPartition(LINES, number % PARTITIONS), b"", TEXT.serialize(word), 1_000)
        self._producer.flush()

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.close()

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            self.write(MOVING)


class Asker:
    """Asks for one word after the other, in a thread, until it is stopped. `wrong`: answers that are not right."""

    def __init__(self, instances: list[str], writer: Writer, seed: int, timeout_s: float) -> None:
        self.answered: Counter[tuple[str, str]] = Counter()
        self.refused: Counter[str] = Counter()
        self.wrong: list[object] = []
        self._client = StateStoreClient(instances, timeout_s=timeout_s)
        self._writer = writer
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Asker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        words = [*SETTLED, *MOVING]
        while not self._stop.is_set():
            word, max_lag = self._random.choice(words), self._random.choice(ACCEPTED_LAGS)
            try:
                answer = self._client.get(STORE, word.encode(), max_lag=max_lag)
            except QueryFailed as failed:
                self._refused(failed)
            except Exception as error:
                self.wrong.append((word, max_lag, repr(error)))
            else:
                self._answered(word, max_lag, answer)

    def _refused(self, failed: QueryFailed) -> None:
        self.refused.update(failed.tried.keys())
        if failed.code is not None or not failed.tried:
            self.wrong.append(str(failed))

    def _answered(self, word: str, max_lag: int | None, answer: StoreValue) -> None:
        self.answered[answer.source.host, answer.source.role] += 1
        count = 0 if answer.value is None else LONG.deserialize(answer.value)
        if answer.source.role == "standby" and max_lag is None:
            self.wrong.append((word, max_lag, answer))
        if answer.source.lag > 0:  # so much was accepted, and then anything may be missing
            right = answer.source.lag <= (max_lag or 0)
        elif word in SETTLED:
            right = count == SETTLED[word]
        else:
            right = 1 <= count <= self._writer.written[word]
        if not right:
            self.wrong.append((word, max_lag, answer))


@pytest.mark.long
def test_should_answer_right_or_refuse_while_instances_come_and_are_killed(
    client: CoordinatorClient, coordinator: CoordinatorProcess, tmp_path: Path
) -> None:
    with running_group("queries", EXACTLY_ONCE, client, tmp_path) as group, ExitStack() as stack:
        first = fast_application(group.id, tmp_path / "log", tmp_path / "a")
        endpoint, instance = stack.enter_context(serving(first, client))
        writer = Writer(group.log)
        writer.write([word for word, count in SETTLED.items() for _ in range(count)] + MOVING)
        _wait_until_counted(str(endpoint))
        stack.enter_context(writer)
        with _other_instance(group.id, tmp_path, coordinator.url, "b") as killed:
            other = killed.endpoint
            askers = [
                stack.enter_context(Asker([str(endpoint), other], writer, number, timeout_s))
                for number, timeout_s in enumerate((TIMEOUT_S, TIMEOUT_S, 0.2))
            ]
            _wait_until_shared(instance, other)
            _wait_until(askers, lambda: _roles(askers) >= {(str(endpoint), "active"), (other, "active")})
            killed.kill()
        before = sum(sum(asker.answered.values()) for asker in askers)
        wait_for(lambda: _active_here(instance) == ALL_STORE_TASKS, instance.status)
        _wait_until(askers, lambda: sum(sum(asker.answered.values()) for asker in askers) > before + 50)
        with _other_instance(group.id, tmp_path, coordinator.url, "b") as again:
            _wait_until_shared(instance, again.endpoint)
            _wait_until(askers, lambda: (again.endpoint, "active") in _roles(askers))
        wait_for(lambda: _active_here(instance) == ALL_STORE_TASKS, instance.status)
        for asker in askers:
            asker.__exit__()
        assert [asker.wrong for asker in askers] == [[], [], []]
        assert askers[0].refused + askers[1].refused == Counter(), "who waits gets an answer"
        assert instance.errors == ()


@contextmanager
def _other_instance(application_id: str, directory: Path, url: str, name: str) -> Iterator[InstanceProcess]:
    process = InstanceProcess(application_id, directory / "log", directory / name, url)
    try:
        yield process
    finally:
        process.end()


def _wait_until_counted(endpoint: str) -> None:
    with StateStoreClient([endpoint], timeout_s=TIMEOUT_S) as stores:
        wanted = {word: LONG.serialize(count) for word, count in {**SETTLED, **dict.fromkeys(MOVING, 1)}.items()}
        wait_for(
            lambda: all(stores.get(STORE, word.encode()).value == value for word, value in wanted.items()),
            lambda: [stores.get(STORE, word.encode()) for word in wanted],
        )


def _wait_until_shared(instance: StreamsInstance, other: str) -> None:
    """Each has one of the two active copies, and a standby of the other one."""

    def shared() -> bool:
        with StateStoreClient([other], timeout_s=0.5) as stores:
            try:
                there = {copy["task"] for copy in stores.copies(other, STORE) if copy["role"] == "active"}
            except QueryFailed:
                return False
        here = _active_here(instance)
        return len(here) == len(there) == 1 and here | there == ALL_STORE_TASKS

    wait_for(shared, instance.status)


def _active_here(instance: StreamsInstance) -> set[str]:
    return {
        str(copy.task_id)
        for copy in instance.copies()
        if copy.role is TaskType.ACTIVE and copy.state is TaskState.RUNNING and STORE in copy.stores
    }


def _roles(askers: list[Asker]) -> set[tuple[str, str]]:
    return {source for asker in askers for source in list(asker.answered)}


def _wait_until(askers: list[Asker], condition: Callable[[], bool]) -> None:
    wait_for(lambda: condition() or any(asker.wrong for asker in askers), lambda: [a.answered for a in askers])
