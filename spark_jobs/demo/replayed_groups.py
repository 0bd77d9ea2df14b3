"""The recorded rebalances of real Kafka Streams groups, run again through this project's pipeline and compared.

Only rebalances led by Kafka Streams 4.3.1 are compared: with `led_by`, the output is another leader's.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from assignor.pipeline import assign
from assignor.recording import RecordedRebalance, parse_recorded_rebalance
from rebalance_analysis.compare import compare_rebalance

_SUFFIX = ".jsonl.gz"


@dataclass(frozen=True, slots=True)
class ReplayedGroup:
    """The result for one recording. `rebalances`: those led by Kafka Streams 4.3.1. `equal`: after decoding;
    `bytes_equal`: to the byte. `led_by_others`: not compared.
    """

    name: str
    rebalances: int
    equal: int
    bytes_equal: int
    led_by_others: int
    differences: tuple[str, ...]


def recorded_groups() -> Iterator[tuple[str, list[RecordedRebalance]]]:
    """The recordings in this package: name and rebalances, sorted by name."""
    for entry in sorted(files("spark_jobs.demo.recordings").iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(_SUFFIX):
            lines = gzip.decompress(entry.read_bytes()).decode("utf-8").splitlines()
            yield entry.name.removesuffix(_SUFFIX), [parse_recorded_rebalance(json.loads(line)) for line in lines]


def replay(name: str, recorded: list[RecordedRebalance]) -> ReplayedGroup:
    """Run each rebalance again and compare it with the recording."""
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
