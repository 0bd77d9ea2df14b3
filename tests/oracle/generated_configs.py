"""Configs drawn by chance, with Kafka's edges among them; a key that is left out takes Kafka's default."""

from enum import Enum
from random import Random
from typing import Any

from assignor.types import JAVA_INT_MAX, JAVA_INT_MIN, JAVA_LONG_MAX
from tests.oracle import custom_assignors

TAG_KEYS = ("zone", "cluster", "é", "rack", "k5")
ASSIGNORS = (*("HighAvailabilityTaskAssignor",) * 6, *("LegacyStickyTaskAssignor",) * 2, "FallbackPriorTaskAssignor")
_STICKY = "StickyTaskAssignor"
CUSTOM_ASSIGNORS_OF_PLACEMENTS, CUSTOM_ASSIGNORS_OF_REBALANCES = (
    (*(_STICKY,) * len(names), *(f"{custom_assignors.__name__}:{name}" for name in names))
    for names in (custom_assignors.OF_PLACEMENTS, custom_assignors.OF_REBALANCES)
)
"""Of the public interface (KIP-924): Kafka's own for half of the groups, and those of `custom_assignors`."""


def is_custom(assignor: str) -> bool:
    """Whether it is one of the public interface."""
    return assignor in CUSTOM_ASSIGNORS_OF_REBALANCES


_TOPIC_CONFIGS: tuple[tuple[str, object], ...] = (
    ("topic.retention.ms", "999"),
    ("topic.min.insync.replicas", 2),
    ("topic.cleanup.policy", "delete"),
    ("topic.segment.bytes", "7"),
    ("topic.message.timestamp.type", "LogAppendTime"),
    ("topic.min.compaction.lag.ms", "5"),
    ("topic.x", ""),
)
_SERVERS = ("h:1", "127.0.0.1:8080", "[::1]:65535", "http://h:1")
_ODD_SERVERS = (" h:01 ", "h:99999999999", ":1", "é:1", "h", "")


def has_defined_bytes(assignor: str) -> bool:
    """Whether each JVM writes the same bytes."""
    return assignor.rpartition(":")[2] not in custom_assignors.WITHOUT_DEFINED_BYTES


class Groups(Enum):
    """Which groups are drawn. Of all kinds, those of the public interface excepted; all with a rack-aware strategy
    (KIP-925); or all with an assignor of the public interface (KIP-924), with racks as often as not.
    """

    ANY = "of any kind"
    IN_RACKS = "in racks"
    CUSTOM = "of custom assignors"

    def named(self, what: str) -> str:
        """`what`, less what goes without saying."""
        return what if self is Groups.ANY else f"{what} {self.value}"

    def share_in_racks(self, of_any: float) -> float:
        """How many of the groups get a rack-aware strategy."""
        return {Groups.ANY: of_any, Groups.IN_RACKS: 1.0, Groups.CUSTOM: 0.5}[self]


def placement_configs(random: Random) -> dict[str, Any]:
    """What a task assignor looks at."""
    configs: dict[str, Any] = {
        "num.standby.replicas": random.choice((0, 0, 1, 1, 1, 2, 3, 5, 20, -1, JAVA_INT_MIN)),
        "acceptable.recovery.lag": random.choice((0, 1, 10, 100, 1000, 10_000, JAVA_LONG_MAX)),
        "max.warmup.replicas": random.choice((1, 1, 2, 2, 3, 5, 1000, JAVA_INT_MAX)),
        "probing.rebalance.interval.ms": random.choice((60_000, 600_000, 123_456, 3_600_000, 10**12)),
    }
    for key in list(configs):
        if random.random() < 0.2:
            del configs[key]
    if random.random() < 0.3:
        configs["rack.aware.assignment.tags"] = random.sample(TAG_KEYS, random.randint(1, len(TAG_KEYS)))
    return configs


def rack_aware_configs(random: Random) -> dict[str, Any]:
    """A strategy, and costs for half of the groups. Some make an int overflow, though none to the one int
    without a negative: with that, Kafka's leader never ends.
    """
    configs: dict[str, Any] = {"rack.aware.assignment.strategy": random.choice(("min_traffic", "balance_subtopology"))}
    for key in ("traffic_cost", "non_overlap_cost"):
        if random.random() < 0.5:
            configs[f"rack.aware.assignment.{key}"] = random.choice(
                (0, 0, 1, 1, 2, 5, 10, 100, 10**9, -1, -5, -(10**9))
            )
    return configs


def rebalance_configs(random: Random, hostile: bool) -> dict[str, Any]:
    """`hostile`: sometimes an interval with which the probing deadline goes beyond a long."""
    configs = placement_configs(random)
    if hostile and random.random() < 0.1:
        configs["probing.rebalance.interval.ms"] = random.choice((JAVA_LONG_MAX, JAVA_LONG_MAX - 1, 2**62))
    if random.random() < 0.3:
        configs["replication.factor"] = random.choice((-1, 1, 2, 3, 32_767, 0, -2, 32_768, 70_000))
    if random.random() < 0.3:
        configs["rack.aware.assignment.strategy"] = "none"
    if random.random() < 0.2:
        configs["windowstore.changelog.additional.retention.ms"] = random.choice((0, 1, 5000, JAVA_LONG_MAX, -1, -5000))
    if random.random() < 0.3:
        configs.update(random.sample(_TOPIC_CONFIGS, random.randint(1, 3)))
    if random.random() < 0.3:
        configs["application.server"] = random.choice(_ODD_SERVERS if random.random() < 0.2 else _SERVERS)
    if random.random() < 0.1:
        configs["upgrade.from"] = random.choice(("2.4", "3.9", "4.2", "4.3", "4.3", "4.4", "2.3", "x"))
    return configs
