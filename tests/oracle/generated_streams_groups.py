"""Fresh streams groups that go on for some rounds, as lines of streams_group/1, each drawn from one seed.

What members had is what Kafka gave them in the round before; in wild groups any number of members claim any task. Ids
are as brokers see them, or few of them fall into different buckets of a hash map.

Members report offsets as clients of 4.4 do; brokers of 4.3 pass none of them to their assignor. `task_offsets` has the
tasks that the process of the member has on disk, without the active tasks of the member itself: standbys, tasks of
other threads, and tasks of earlier rounds. `task_end_offsets` has those of them that the member itself restores.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any
from uuid import UUID

from assignor.types import JAVA_LONG_MAX

Line = dict[str, Any]

FORMAT = "streams_group/1"
_THREADS = (1, 1, 1, 2, 2, 3, 5)
_PROCESSES = (1, 2, 2, 3, 3, 4, 6, 9, 14)
_PARTITIONS = (1, 2, 3, 4, 6, 8, 12, 20)
_END_OFFSETS = (0, 5, 1000, 10**6)
_BEHIND = (-1, -1, 0, 10, 500)
"""A store that is caught up has its changelog's end offset and one more."""


def streams_group_history(seed: str, ask: Callable[[Line], Line]) -> Iterator[Line]:
    """The rounds of one group, with Kafka's output, in order."""
    random = Random(seed)
    wild, crowded = random.random() < 0.3, random.random() < 0.3
    names = random.sample(range(13), random.choice((1, 1, 2, 3, 4)))
    subtopologies = {
        str(name): {"partitions": random.choice(_PARTITIONS), "stateful": random.random() < 0.7} for name in names
    }
    tasks = [f"{name}_{number}" for name, each in subtopologies.items() for number in range(each["partitions"])]
    stateful = [task for task in tasks if subtopologies[task.partition("_")[0]]["stateful"]]
    replicas = random.choice((0, 1, 1, 1, 2, 3))
    disks: dict[str, dict[str, int]] = {}
    members: dict[str, Line] = {}
    for _ in range(random.choice(_PROCESSES)):
        _join(random, members, crowded)
    for number in range(random.choice((1, 2, 3, 5))):
        if wild:
            for member in members.values():
                member["active"] = random.sample(tasks, random.randint(0, len(tasks)))
                member["standby"] = random.sample(tasks, random.randint(0, len(tasks)))
        _report_offsets(random, members, disks, stateful, wild)
        line = ask(
            {
                "format": FORMAT,
                "id": f"{seed}.{number}",
                "num_standby_replicas": replicas,
                "subtopologies": subtopologies,
                "members": {name: dict(member) for name, member in members.items()},
            }
        )
        yield line
        for name, member in members.items():
            member["active"], member["standby"] = (line["output"][name][role] for role in ("active", "standby"))
        replicas = _live_on(random, members, crowded, replicas)


def _report_offsets(
    random: Random, members: dict[str, Line], disks: dict[str, dict[str, int]], stateful: list[str], wild: bool
) -> None:
    """`disks`: by process, what it has of each task; another process that comes has an empty disk, or an old one."""
    ends = {task: random.choice(_END_OFFSETS) for task in stateful}
    for member in members.values():
        first = dict.fromkeys(stateful, 0) if random.random() < 0.2 else {}
        disk = disks.setdefault(member["process_id"], first)
        for task in (*member["active"], *member["standby"]):
            if task in ends:
                disk[task] = max(0, ends[task] - random.choice(_BEHIND))
    for member in members.values():
        disk = disks[member["process_id"]]
        running = {task for task in member["active"] if random.random() < 0.95}
        reported = {task: offset for task, offset in disk.items() if task not in running}
        if wild:
            reported = {task: random.choice((0, 5, 7, JAVA_LONG_MAX)) for task in stateful if random.random() < 0.5}
        restored = {task for task in (*member["active"], *member["standby"]) if task in reported}
        member["task_offsets"] = reported
        member["task_end_offsets"] = {
            task: ends[task] if random.random() < 0.95 else JAVA_LONG_MAX for task in sorted(restored)
        }


def _join(random: Random, members: dict[str, Line], crowded: bool) -> None:
    """One more process."""
    process = _id(random, crowded)
    for _ in range(random.choice(_THREADS)):
        members[_id(random, crowded)] = {"process_id": process, "active": [], "standby": []}


def _live_on(random: Random, members: dict[str, Line], crowded: bool, replicas: int) -> int:
    """Returns the number of standbys from now on."""
    chance = random.random()
    if chance < 0.35:
        _join(random, members, crowded)
    elif chance < 0.7:
        gone = random.choice(list(members.values()))["process_id"]
        left = {name: member for name, member in members.items() if member["process_id"] != gone}
        if left:
            members.clear()
            members.update(left)
    elif chance < 0.8:
        beside = random.choice(list(members.values()))
        members[_id(random, crowded)] = {"process_id": beside["process_id"], "active": [], "standby": []}
    elif chance < 0.9:
        return random.choice((0, 1, 2))
    return replicas


def _id(random: Random, crowded: bool) -> str:
    """Crowded: one of 1,024 strings with the same hash code."""
    if crowded:
        return "".join(random.choice(("Aa", "BB")) for _ in range(10))
    return str(UUID(int=random.getrandbits(128), version=4))
