"""Topologies drawn by chance, as rebalance/1 has them, with the cluster that holds their source topics.

Subtopologies are joined by repartition topics: chained, fanned in, written by nobody, or in a circle. Stores have
changelogs of every kind, none, or a source topic as changelog. Co-partitioned topics have the same number of
partitions, mostly; now and then a source topic is missing.
"""

from random import Random
from typing import Any

from assignor.types import JAVA_LONG_MAX

Line = dict[str, Any]

SUBTOPOLOGIES = (1, 1, 1, 2, 2, 3, 3, 4, 5, 7)
PARTITIONS = (1, 2, 3, 4, 5, 6, 8, 9, 12)
MANY_PARTITIONS = (20, 33, 64, 100)
REPARTITION_TOPICS = (0, 0, 1, 1, 2, 3, 4, 6)
STORES = (0, 0, 1, 1, 1, 2, 3, 4)
TOPIC_NAMES = ("orders", "payments", "users", "rates", "AaAa", "BBBB", "AaBB", "t", "in.put", "UP_per-x", "topic")
STORE_NAMES = ("store", "KSTREAM-AGGREGATE-STATE-STORE", "AaAa", "BBBB")
_CHANGELOG_CONFIGS = (
    ("cleanup.policy", "compact,delete"),
    ("retention.ms", "12345"),
    ("min.compaction.lag.ms", "77"),
    ("segment.bytes", "1"),
    ("message.timestamp.type", "LogAppendTime"),
    ("x.é", "ü"),
)


def generated_topology(random: Random, application_id: str, hostile: bool, in_racks: bool = False) -> tuple[Line, Line]:
    """`input.topology` and `input.cluster`. `hostile`: also what no builder of Kafka Streams makes. `in_racks`: the
    brokers have racks, as a rack-aware strategy needs them.
    """
    making = _Making(random, application_id)
    making.add_subtopologies()
    making.add_repartition_topics()
    making.add_stores()
    if hostile:
        making.spoil()
    making.add_copartition_groups()
    return making.topology(), making.cluster(in_racks or (hostile and random.random() < 0.3))


def topic_of(partitions: int) -> Line:
    return {"partitions": partitions, "replicas": None, "leaders": None}


def replicas_of(random: Random, cluster: Line, partitions: int) -> list[list[int]] | None:
    """Brokers of an internal topic that exists; None, as of topics that were found by a leader without racks."""
    ids = [broker["id"] for broker in cluster["brokers"]]
    if not ids or random.random() < 0.05:
        return None
    return [random.sample(ids, random.randint(1, min(3, len(ids)))) for _ in range(partitions)]


class _Making:
    def __init__(self, random: Random, application_id: str) -> None:
        self._random = random
        self._application_id = application_id
        self._many_partitions = random.random() < 0.04
        self._topics: dict[str, Line] = {}
        self._subtopologies: list[Line] = []
        self._copartition_groups: list[list[str]] = []

    def topology(self) -> Line:
        return {"subtopologies": self._subtopologies, "copartition_groups": self._copartition_groups}

    def cluster(self, with_racks: bool) -> Line:
        random = self._random
        if random.random() < 0.04 and self._topics:
            del self._topics[random.choice(list(self._topics))]
        if random.random() < 0.2:
            self._topics["unrelated"] = topic_of(3)
        brokers: list[Line] = [{"id": number, "rack": None} for number in range(random.choice((1, 3)))]
        if with_racks:
            self._put_into_racks(brokers)
        return {"brokers": brokers, "topics": self._topics}

    def add_subtopologies(self) -> None:
        random = self._random
        count = random.choice(SUBTOPOLOGIES)
        ids = list(range(count)) if random.random() < 0.9 else sorted(random.sample(range(40), count))
        for id_ in ids:
            sources = [self._new_topic() for _ in range(random.choice((1, 1, 1, 1, 2, 2, 3, 5)))]
            if random.random() < 0.05:
                sources = []
            if self._topics and random.random() < 0.06:
                sources.append(random.choice(list(self._topics)))
            self._subtopologies.append(
                {
                    "id": id_,
                    "source_topics": list(dict.fromkeys(sources)),
                    "repartition_source_topics": [],
                    "sink_topics": [f"out-{id_}"] if random.random() < 0.3 else [],
                    "repartition_sink_topics": [],
                    "stores": [],
                }
            )

    def add_repartition_topics(self) -> None:
        for number in range(self._random.choice(REPARTITION_TOPICS)):
            self._add_repartition_topic(number)
        for subtopology in self._subtopologies:
            if not subtopology["source_topics"]:
                subtopology["source_topics"].append(self._new_topic())
            self._random.shuffle(subtopology["source_topics"])

    def _add_repartition_topic(self, number: int) -> None:
        """Written by an earlier subtopology, as a builder has it; sometimes by a later one, several, or none."""
        random = self._random
        kind = random.choice(("agg", "sel", "KSTREAM-KEY", "AaAa", "BBBB"))
        name = f"{self._application_id}-{kind}-{number}-repartition"
        count = len(self._subtopologies)
        reader = random.randrange(count)
        if reader == 0 and count > 1:
            reader = random.randrange(1, count)
        writers = [random.randrange(count if random.random() < 0.08 else max(reader, 1))]
        if random.random() < 0.2:
            writers.append(random.randrange(count))
        if random.random() < 0.03:
            writers = []
        partitions = random.choice((1, 2, 3, 4, 5, 8)) if random.random() < 0.2 else None
        self._subtopologies[reader]["repartition_source_topics"].append({"name": name, "partitions": partitions})
        self._subtopologies[reader]["source_topics"].append(name)
        for writer in dict.fromkeys(writers):
            self._subtopologies[writer]["sink_topics"].append(name)
            self._subtopologies[writer]["repartition_sink_topics"].append(name)

    def add_stores(self) -> None:
        number = 0
        for subtopology in self._subtopologies:
            for _ in range(self._random.choice(STORES)):
                subtopology["stores"].append(self._store(number, subtopology["source_topics"]))
                number += 1

    def _store(self, number: int, source_topics: list[str]) -> Line:
        random = self._random
        name = f"{random.choice(STORE_NAMES)}-{number}"
        store: Line = {"name": name, "changelog_topic": None, "source_topic_as_changelog": None}
        kind = random.random()
        external = [topic for topic in source_topics if topic in self._topics]
        if 0.15 <= kind < 0.3 and external:
            store["source_topic_as_changelog"] = random.choice(external)
            store["changelog"] = {"type": "unwindowed", "configs": {}}
        elif kind >= 0.15:
            store["changelog_topic"] = f"{self._application_id}-{name}-changelog"
            store["changelog"] = self._changelog()
        return store

    def _changelog(self) -> Line:
        random = self._random
        configs = dict(random.sample(_CHANGELOG_CONFIGS, random.randint(1, 3))) if random.random() < 0.3 else {}
        changelog: Line = {
            "type": random.choice(("unwindowed", "unwindowed", "windowed", "versioned")),
            "configs": configs,
        }
        times = (0, 1, 86_400_000, JAVA_LONG_MAX, JAVA_LONG_MAX - 5)
        if changelog["type"] == "windowed":
            changelog["retention_ms"] = random.choice(times)
        elif changelog["type"] == "versioned":
            changelog["min_compaction_lag_ms"] = random.choice(times)
        return changelog

    def add_copartition_groups(self) -> None:
        random = self._random
        for subtopology in self._subtopologies:
            sources = subtopology["source_topics"]
            if len(sources) < 2 or random.random() >= 0.4:
                continue
            group = random.sample(sources, random.randint(2, len(sources)))
            if random.random() < 0.8:
                partitions = random.choice((2, 3, 4, 6))
                for topic in self._topics.keys() & set(group):
                    self._topics[topic]["partitions"] = partitions
            self._copartition_groups.append(group)
        if random.random() < 0.03:
            self._copartition_groups.append(["nowhere", self._subtopologies[0]["source_topics"][0]])
        if random.random() < 0.04:
            first, last = self._subtopologies[0], self._subtopologies[-1]
            self._copartition_groups.append([first["source_topics"][0], last["source_topics"][-1]])

    def spoil(self) -> None:
        """Internal topics that the cluster's metadata also has, stores that share a changelog, equal subtopologies."""
        random = self._random
        named = [topic["name"] for each in self._subtopologies for topic in each["repartition_source_topics"]]
        stores = [store for each in self._subtopologies for store in each["stores"] if store["changelog_topic"]]
        named += [store["changelog_topic"] for store in stores]
        if named and random.random() < 0.15:
            topic = topic_of(random.choice((1, 2, 3, 50)))
            self._topics[random.choice(named)] = topic
        if len(stores) > 1 and random.random() < 0.1:
            stores[1]["changelog_topic"] = stores[0]["changelog_topic"]
        if len(self._subtopologies) > 1 and random.random() < 0.15:
            first, second = random.sample(self._subtopologies, 2)
            second["source_topics"] = list(first["source_topics"])
            second["repartition_source_topics"] = [dict(topic) for topic in first["repartition_source_topics"]]
            second["stores"] = []
        if random.random() < 0.1:
            random.shuffle(self._subtopologies)

    def _new_topic(self) -> str:
        random = self._random
        name = f"{random.choice(TOPIC_NAMES)}{random.choice(('', '-'))}{len(self._topics)}"
        partitions = random.choice(MANY_PARTITIONS if self._many_partitions else PARTITIONS)
        self._topics[name] = topic_of(partitions)
        return name

    def _put_into_racks(self, brokers: list[Line]) -> None:
        random = self._random
        for broker in brokers:
            broker["rack"] = random.choice(("r1", "r2", "r3")) if random.random() < 0.98 else None
        ids = [broker["id"] for broker in brokers]
        for topic in self._topics.values():
            replicas = [random.sample(ids, random.randint(1, len(ids))) for _ in range(topic["partitions"])]
            topic["replicas"], topic["leaders"] = replicas, [held[0] for held in replicas]
