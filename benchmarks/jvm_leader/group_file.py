"""One group as a file for each contender, so that nothing is parsed while it is timed: for Java a plain binary form.

`Leader.java` reads it with Java's DataInputStream: big-endian numbers, and ASCII text with its length.
"""

import pickle
import struct
from pathlib import Path

from assignor.pipeline.snapshot import RebalanceSnapshot
from benchmarks.shapes import CHANGELOG, TOPIC

_HARNESS = "org.apache.kafka.streams.processor.internals.Leader$"
INTERNAL_CLASS = "internal.task.assignor.class"
PUBLIC_CLASS = "task.assignor.class"
TIMED_CLASSES = {
    "HighAvailabilityTaskAssignor": (INTERNAL_CLASS, "HighAvailability"),
    "LegacyStickyTaskAssignor": (INTERNAL_CLASS, "LegacySticky"),
    "FallbackPriorTaskAssignor": (INTERNAL_CLASS, "FallbackPrior"),
    "StickyTaskAssignor": (PUBLIC_CLASS, "Sticky"),
}
"""By our name: the config, and the class of the harness that extends Kafka's."""


def write_for_java(snapshot: RebalanceSnapshot, path: Path) -> None:
    """A snapshot of `benchmarks.shapes`: one source topic, one changelog with as many partitions."""
    key, harness_class = TIMED_CLASSES[snapshot.assignor]
    configs = {
        "application.id": snapshot.application_id,
        "bootstrap.servers": "localhost:1",
        "num.standby.replicas": str(snapshot.configs.num_standby_replicas),
        "rack.aware.assignment.strategy": snapshot.configs.rack_aware_assignment_strategy,
        key: f"{_HARNESS}{harness_class}",
    }
    topic, ends = snapshot.cluster.topics[TOPIC], (snapshot.changelog_end_offsets or {})[CHANGELOG]
    with path.open("wb") as file:
        file.write(_number(len(configs)))
        for name, value in configs.items():
            file.write(_text(name) + _text(value))
        file.write(_number(len(snapshot.cluster.brokers)))
        for broker in snapshot.cluster.brokers:
            file.write(_number(broker.id) + _text(broker.rack or ""))
        file.write(_text(TOPIC) + _text(CHANGELOG) + _number(topic.partitions))
        for partition, end in enumerate(ends):
            replicas = () if topic.replicas is None else topic.replicas[partition]
            file.write(struct.pack(f">{1 + len(replicas)}iq", len(replicas), *replicas, end))
        file.write(_number(len(snapshot.members)))
        for member_id, member in snapshot.members.items():
            file.write(_text(member_id) + _number(len(member.subscription)) + member.subscription)


def write_for_python(snapshot: RebalanceSnapshot, path: Path) -> None:
    path.write_bytes(pickle.dumps(snapshot))


def read_for_python(path: Path) -> RebalanceSnapshot:
    snapshot = pickle.loads(path.read_bytes())  # noqa: S301 - written by the same program a moment ago
    assert isinstance(snapshot, RebalanceSnapshot)
    return snapshot


def _number(value: int) -> bytes:
    return struct.pack(">i", value)


def _text(text: str) -> bytes:
    encoded = text.encode("ascii")
    return struct.pack(">H", len(encoded)) + encoded
