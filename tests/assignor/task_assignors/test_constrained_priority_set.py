"""The queue must draw what Java's PriorityQueue with changing weights draws, also after it has lost its order."""

import random

import pytest

from assignor.java.order import hash_set_order
from assignor.java.priority_queue import JavaPriorityQueue
from assignor.types import ProcessId
from tests.assignor.task_assignors.forms import form


class PlainQueue:
    """The same, word by word as Kafka has it: live weights, one draw after the other."""

    def __init__(self, processes: list[ProcessId], load: list[float]) -> None:
        self._processes = processes
        self._queue: JavaPriorityQueue[int] = JavaPriorityQueue(lambda client: (load[client], client))
        self._queued: set[int] = set()
        self.offer_all(list(range(len(processes))))

    def poll(self, accepted: list[int]) -> int | None:
        rejected: list[int] = []
        found: int | None = None
        while found is None and (client := self._queue.poll()) is not None:
            self._queued.remove(client)
            if client in accepted:
                found = client
            else:
                rejected.append(client)
        walked = hash_set_order([self._processes[client] for client in rejected])
        self.offer_all([self._processes.index(process) for process in walked])
        return found

    def offer_all(self, clients: list[int]) -> None:
        for client in clients:
            if client in self._queued:
                self._queue.remove(client)
            self._queued.add(client)
            self._queue.offer(client)


def processes_of(random_source: random.Random) -> list[ProcessId]:
    """Few or many; in one case of two with few hash codes, so that the buckets of Java's sets are crowded."""
    hash_codes = random_source.choice([2, 2**31])
    high = [number << 32 for number in range(random_source.choice([2, 5, 10, 60, 90]))]
    return sorted(ProcessId(half, number ^ random_source.randrange(hash_codes)) for number, half in enumerate(high))


def a_client_about_to_become_lighter(
    random_source: random.Random, source: int, counts: list[int], threads: list[int]
) -> int:
    """Than `source`, by one task less, if there is one: only then can the heap lose its order."""
    load = counts[source] / threads[source]
    others = [client for client in range(len(counts)) if client != source]
    close = [other for other in others if (counts[other] - 1) / threads[other] < load <= counts[other] / threads[other]]
    return random_source.choice(close or others)


def differences_from_lightest_first(random_source: random.Random, *, draws_have_seldom_a_choice: bool) -> int:
    """Play movements on Java's queue and on both forms of ours.

    Gives how often the client drawn was not the lightest one accepted.

    When draws have seldom a choice, many steps are written down before they have to be carried out.
    """
    processes = processes_of(random_source)
    everybody = range(len(processes))
    threads = [1 if random_source.random() < 0.9 else 2 for _ in everybody]
    counts = [random_source.randint(10, 12) for _ in everybody]
    load = [count / thread for count, thread in zip(counts, threads, strict=True)]
    plain = PlainQueue(processes, load)
    queues = [
        form("constrained_priority_set", pure=pure).ConstrainedPrioritySet(processes, counts, threads)
        for pure in (False, True)
    ]
    accepted_counts = [0, 1, 2, len(processes) // 2]
    if draws_have_seldom_a_choice:
        accepted_counts = [1, 1, 1, 1, len(processes) // 2]
    differences = 0
    for _ in range(100):
        accepted = random_source.sample(everybody, random_source.choice(accepted_counts))
        drawn = plain.poll(accepted)
        assert [queue.poll(accepted) for queue in queues] == [drawn, drawn]
        assert (drawn is None) == (not accepted)
        if drawn is not None and drawn != min(accepted, key=lambda client: (load[client], client)):
            differences += 1
        source = random_source.choice(everybody) if drawn is None else drawn
        counts[source] += 1
        destination = a_client_about_to_become_lighter(random_source, source, counts, threads)
        counts[destination] -= random_source.choice([0, 1, 1])
        for client in (source, destination):
            load[client] = counts[client] / threads[client]
        for queue in queues:
            queue.offer(source, destination)
        plain.offer_all([source, destination])
    return differences


@pytest.mark.parametrize("draws_have_seldom_a_choice", [False, True])
def test_should_draw_the_same_clients_as_javas_queue(draws_have_seldom_a_choice: bool) -> None:
    differences = 0
    for seed in range(125, 150):  # such a case is rare
        differences += differences_from_lightest_first(
            random.Random(seed), draws_have_seldom_a_choice=draws_have_seldom_a_choice
        )
    assert differences > 0, "no case in which the heap's layout shows: the comparison has lost its teeth"


@pytest.mark.parametrize("pure", [False, True])
def test_should_put_nobody_out_when_nobody_is_accepted(pure: bool) -> None:
    queue_class = form("constrained_priority_set", pure=pure).ConstrainedPrioritySet
    queue = queue_class([ProcessId(0, number) for number in range(3)], [4, 2, 1], [2, 2, 1])
    assert queue.poll([]) is None
    assert [queue.poll(range(3)) for _ in range(4)] == [1, 2, 0, None]
