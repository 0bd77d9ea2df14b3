"""Fresh placement problems that go on for some rounds, as lines of placement/1, each drawn from one seed.

A client's previous tasks are what Kafka placed on it in the round before, so a seed gives the same lines whatever this
project's assignors make of them. Kinds: groups that live, with copies that catch up; dense ones, in which many clients
and tasks tie, so that the layout of Kafka's heaps decides; and wild ones, whose claims contradict each other.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from assignor.types import JAVA_LONG_MAX, ProcessId
from tests.oracle.generated_configs import (
    ASSIGNORS,
    CUSTOM_ASSIGNORS_OF_PLACEMENTS,
    Groups,
    placement_configs,
    rack_aware_configs,
)
from tests.oracle.generated_members import generated_process_id

Line = dict[str, Any]
Ask = Callable[[Line], Line]

ROUNDS = (1, 2, 3, 5, 8)
SUBTOPOLOGIES = (1, 1, 2, 3, 5)
TASKS = (1, 2, 3, 5, 8, 12, 20)
DENSE_TASKS = (20, 30, 50)
CLIENTS = (1, 2, 2, 3, 3, 4, 5, 7, 10)
DENSE_CLIENTS = (8, 9, 10, 12, 16)
CAPACITIES = (1, 1, 1, 2, 2, 3, 5, 9)
_TIED_LAGS = (-2, 0, 0, 5, 5, 20_000, 30_000, 60_000)
_EDGE_LAGS = (-3, -2, -1, 0, 1, 10_000, 10_001, JAVA_LONG_MAX, JAVA_LONG_MAX - 1)


@dataclass(slots=True)
class _Client:
    """`lags`: how far behind its copy of a stateful task is; a task that is not there it would restore in full."""

    capacity: int
    tags: dict[str, str]
    rack: str | None
    prev_active: list[str] = field(default_factory=list)
    prev_standby: list[str] = field(default_factory=list)
    lags: dict[str, int] = field(default_factory=dict)


def _dense_configs(random: Random) -> Line:
    return {
        "num.standby.replicas": random.choice((1, 1, 1, 2)),
        "acceptable.recovery.lag": random.choice((10, 25_000, 45_000)),
        "max.warmup.replicas": random.choice((1, 2, 5, 20)),
    }


def placement_history(seed: str, ask: Ask, groups: Groups = Groups.ANY) -> Iterator[Line]:
    """The rounds of one group, with Kafka's output, in order."""
    return _Group(seed, Random(seed), groups).rounds(ask)


class _Group:
    def __init__(self, seed: str, random: Random, groups: Groups) -> None:
        self._seed = seed
        self._random = random
        self._kind = random.choice(("living", "dense", "wild"))
        self._assignor = random.choice(CUSTOM_ASSIGNORS_OF_PLACEMENTS if groups is Groups.CUSTOM else ASSIGNORS)
        self._configs = placement_configs(random)
        if self._kind == "dense":
            self._configs |= _dense_configs(random)
        strategy = random.random() < groups.share_in_racks(of_any=0.3)
        some_racks = (("a", "b", "c"), ("a", "b"))
        self._racks = random.choice(some_racks if strategy else (None, None, None, *some_racks))
        self._crowded = random.random() < 0.3
        self._tasks, self._stateful = self._draw_tasks()
        self._read: Line = {}
        if strategy and self._racks is not None:
            self._configs |= rack_aware_configs(random)
            self._read = self._draw_partitions(self._racks)
        self._ends = {task: random.choice((0, 1, 100, 20_000, 10**6)) for task in self._stateful}
        self._clients: dict[ProcessId, _Client] = {}
        for _ in range(random.choice(DENSE_CLIENTS if self._kind == "dense" else CLIENTS)):
            self._add_client()

    def rounds(self, ask: Ask) -> Iterator[Line]:
        for number in range(self._random.choice(ROUNDS)):
            line = ask(self._line(number))
            yield line
            self._receive(line["output"]["clients"])
            self._live_on()

    def _draw_tasks(self) -> tuple[list[str], list[str]]:
        random = self._random
        tasks, stateful = [], []
        for subtopology in range(random.choice(SUBTOPOLOGIES)):
            dense = self._kind == "dense" and subtopology == 0
            of_subtopology = [
                f"{subtopology}_{number}" for number in range(random.choice(DENSE_TASKS if dense else TASKS))
            ]
            tasks += of_subtopology
            if dense or random.random() < 0.7:
                stateful += of_subtopology
        random.shuffle(tasks)
        return tasks, stateful

    def _draw_partitions(self, racks: Sequence[str]) -> Line:
        """What every task reads, and on which racks that is. Rarely a broker has no rack, or nothing is known of it."""
        random = self._random
        sources: Line = {task: [] for task in self._tasks}
        changelogs: Line = {task: [] for task in self._stateful}
        on_racks: Line = {}
        for by_task, kind in ((sources, "in"), (changelogs, "log")):
            partitions: dict[str, int] = {}
            for task in by_task:
                subtopology, partition = task.split("_")
                partitions[subtopology] = max(partitions.get(subtopology, 0), int(partition) + 1)
            for subtopology, count in partitions.items():
                for number in range(random.choice((1, 1, 1, 2, 3))):
                    topic = f"{kind}-{subtopology}-{number}"
                    on_racks[topic] = [random.sample(racks, random.randint(1, len(racks))) for _ in range(count)]
                    for place in range(count):
                        by_task[f"{subtopology}_{place}"].append([topic, place])
        if random.random() < 0.05:
            topic = random.choice(list(on_racks))
            on_racks[topic][0] = random.choice(([], [None], ["a", None]))
        return {"task_partitions": sources, "changelog_partitions": changelogs, "partition_racks": on_racks}

    def _add_client(self) -> None:
        random = self._random
        keys = self._configs.get("rack.aware.assignment.tags", [])
        tags = {key: random.choice(("a", "b", "c", "d")) for key in keys if random.random() < 0.95}
        rack = random.choice(self._racks) if self._racks is not None and random.random() < 0.97 else None
        client = _Client(random.choice(CAPACITIES), tags, rack)
        if self._kind == "dense":
            client.lags = self._tied_lags()
        elif self._kind == "wild":
            client.prev_active = random.sample(self._tasks, random.randint(0, len(self._tasks)))
            client.prev_standby = random.sample(self._stateful, random.randint(0, len(self._stateful)))
            client.lags = {task: random.choice(_EDGE_LAGS) for task in self._stateful}
        self._clients[generated_process_id(random, self._crowded)] = client

    def _tied_lags(self) -> dict[str, int]:
        return {task: self._random.choice(_TIED_LAGS) for task in self._stateful}

    def _line(self, number: int) -> Line:
        return {
            "format": "placement/1",
            "id": f"{self._seed}.{number}",
            "assignor": self._assignor,
            "configs": self._configs,
            "tasks": self._tasks,
            "stateful": self._stateful,
            "clients": {
                str(process_id): {
                    "capacity": client.capacity,
                    "prev_active": client.prev_active,
                    "prev_standby": client.prev_standby,
                    "lags": {task: client.lags.get(task, self._ends[task]) for task in self._stateful},
                    "tags": client.tags,
                    "rack": client.rack,
                }
                for process_id, client in self._clients.items()
            },
            **self._read,
        }

    def _receive(self, placed: dict[str, Line]) -> None:
        """An active copy is restored at once, a standby over some rounds; other state stays on disk for a while."""
        random = self._random
        for process_id, client in self._clients.items():
            tasks = placed[str(process_id)]
            client.prev_active, client.prev_standby = tasks["active"], tasks["standby"]
            if self._kind == "dense":
                client.lags = self._tied_lags()
                continue
            left, client.lags = client.lags, {}
            for task in tasks["active"]:
                if task in self._ends:
                    client.lags[task] = -2
            for task in tasks["standby"]:
                behind = left.get(task, self._ends[task])
                client.lags[task] = random.choice((0, max(behind, 0) // 2, max(behind - 5000, 0)))
            for task, lag in left.items():
                if task not in client.lags and random.random() < 0.7:
                    client.lags[task] = min(max(lag, 0) + 100, self._ends[task])
                    if self._kind != "wild" or random.random() < 0.5:
                        client.prev_standby = [*client.prev_standby, task]

    def _live_on(self) -> None:
        random = self._random
        kind = random.random()
        if kind < 0.25 and len(self._clients) > 1:
            del self._clients[random.choice(list(self._clients))]
        elif kind < 0.5:
            self._add_client()
        elif kind < 0.55:
            random.choice(list(self._clients.values())).capacity = random.choice(CAPACITIES)
        elif kind < 0.6:
            self._configs["num.standby.replicas"] = random.choice((0, 1, 2))
