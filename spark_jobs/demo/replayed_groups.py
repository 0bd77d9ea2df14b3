"""The recorded rebalances of real Kafka Streams groups once more through this project's pipeline, and what is equal.

Only rebalances that Kafka Streams 4.3.1 led are compared: of those with `led_by` the output is another leader's.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from assignor.compare import compare_rebalance
from assignor.pipeline import assign
from assignor.recording import RecordedRebalance, parse_recorded_rebalance

_SUFFIX = ".jsonl.gz"


@dataclass(frozen=True, slots=True)
class ReplayedGroup:
    """Of one recording: rebalances led by Kafka 4.3.1, how many came out equal after decoding and to the byte, and the
    others.
    """

    name: str
    rebalances: int
    equal: int
    bytes_equal: int
    led_by_others: int
    differences: tuple[str, ...]


def recorded_groups() -> Iterator[tuple[str, list[RecordedRebalance]]]:
    """Every recording that comes with the package: its name and its rebalances, by name."""
    for entry in sorted(files("spark_jobs.demo.recordings").iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(_SUFFIX):
            lines = gzip.decompress(entry.read_bytes()).decode("utf-8").splitlines()
            yield entry.name.removesuffix(_SUFFIX), [parse_recorded_rebalance(json.loads(line)) for line in lines]


def replay(name: str, recorded: list[RecordedRebalance]) -> ReplayedGroup:
    """Run each rebalance again and compare."""
    ours = [one for one in recorded if one.led_by is None and one.output is not None]
    equal = bytes_equal = 0
    differences: list[str] = []
    for one in ours:
        assert one.output is not None, "chosen so"
        comparison = compare_rebalance(assign(one.snapshot, one.now_ms), one.output)
        equal += comparison.equal
        bytes_equal += comparison.bytes_equal
        differences += [f"{one.id}: {difference}" for difference in comparison.differences]
    return ReplayedGroup(name, len(ours), equal, bytes_equal, len(recorded) - len(ours), tuple(differences))
