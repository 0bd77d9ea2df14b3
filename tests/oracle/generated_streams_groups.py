"""Fresh streams groups that go on for some rounds, as lines of streams_group/1, each drawn from one seed.

What members had is what Kafka gave them in the round before; in wild groups any number of members claim any task. Ids
are as brokers see them, or few of them fall into different buckets of a hash map.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any
from uuid import UUID

Line = dict[str, Any]

FORMAT = "streams_group/1"
_THREADS = (1, 1, 1, 2, 2, 3, 5)
_PROCESSES = (1, 2, 2, 3, 3, 4, 6, 9, 14)
_PARTITIONS = (1, 2, 3, 4, 6, 8, 12, 20)


def streams_group_history(seed: str, ask: Callable[[Line], Line]) -> Iterator[Line]:
    """The rounds of one group, with Kafka's output, in order."""
    random = Random(seed)
    wild, crowded = random.random() < 0.3, random.random() < 0.3
    names = random.sample(range(13), random.choice((1, 1, 2, 3, 4)))
    subtopologies = {
        str(name): {"partitions": random.choice(_PARTITIONS), "stateful": random.random() < 0.7} for name in names
    }
    tasks = [f"{name}_{number}" for name, each in subtopologies.items() for number in range(each["partitions"])]
    replicas = random.choice((0, 1, 1, 1, 2, 3))
    members: dict[str, Line] = {}
    for _ in range(random.choice(_PROCESSES)):
        _join(random, members, crowded)
    for number in range(random.choice((1, 2, 3, 5))):
        if wild:
            for member in members.values():
                member["active"] = random.sample(tasks, random.randint(0, len(tasks)))
                member["standby"] = random.sample(tasks, random.randint(0, len(tasks)))
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
