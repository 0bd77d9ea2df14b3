"""Runs recorded rebalances of real Kafka Streams groups through this project's pipeline, and compares the results.

Only rebalances that Kafka Streams 4.3.1 led are compared. A recorded rebalance with the field `led_by` is left out,
because another leader computed its output.
"""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from assignor.recording import RecordedRebalance, parse_recorded_rebalance
from rebalance_analysis.rerun import run_recorded

_SUFFIX = ".jsonl.gz"


@dataclass(frozen=True, slots=True)
class ReplayedGroup:
    """The result of the comparison with one recording. `rebalances`: the number of rebalances led by Kafka Streams
    4.3.1. `equal`: the number of results that equal the recorded result after decoding. `bytes_equal`: the number of
    results that equal the recorded result byte for byte.
    """

    name: str
    rebalances: int
    equal: int
    bytes_equal: int
    differences: tuple[str, ...]


def recorded_groups() -> Iterator[tuple[str, list[RecordedRebalance]]]:
    """Yields the name and the rebalances of each recording in this package, sorted by name."""
    for entry in sorted(files("spark_jobs.demo.recordings").iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(_SUFFIX):
            lines = gzip.decompress(entry.read_bytes()).decode("utf-8").splitlines()
            yield entry.name.removesuffix(_SUFFIX), [parse_recorded_rebalance(json.loads(line)) for line in lines]


def replay(name: str, recorded: list[RecordedRebalance]) -> ReplayedGroup:
    """Runs each rebalance again, and compares the result with the recorded result."""
    compared = [
        (rebalance.id, comparison)
        for rebalance in recorded
        if (comparison := run_recorded(rebalance).comparison()) is not None
    ]
    return ReplayedGroup(
        name,
        len(compared),
        sum(comparison.equal for _, comparison in compared),
        sum(bool(comparison.bytes_equal) for _, comparison in compared),
        tuple(f"{where}: {difference}" for where, comparison in compared for difference in comparison.differences),
    )
