"""CPU seconds of one whole rebalance, bytes to bytes, beside Kafka's own figures for the same shapes.

The ratio is ours over Kafka's. Kafka's seconds were measured once, on a warm JVM on 2 cores (they are in `shapes.py`),
so the ratio compares two machines of the same size, not two programs in one run. There is no figure of Kafka's for the
rebalance with a client added.
"""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import track
from rich.table import Table

from assignor.pipeline import assign
from assignor.snapshot import RebalanceResult, RebalanceSnapshot
from benchmarks.shapes import SHAPES, client_added_rebalance, first_rebalance, second_rebalance

QUICK_PLACES = 20_000
"""Tasks times clients, at most."""


def timed_rebalance(snapshot: RebalanceSnapshot) -> tuple[RebalanceResult, float]:
    """The result and the CPU seconds it took."""
    start = time.process_time()
    result = assign(snapshot, now_ms=0)
    return result, time.process_time() - start


def run(console: Console, *, quick: bool = False) -> None:
    """Print one row per shape. `quick`: the smallest only."""
    shapes = [shape for shape in SHAPES if shape.tasks * shape.clients <= QUICK_PLACES] if quick else SHAPES
    table = Table(title="HighAvailabilityTaskAssignor, whole pipeline: CPU seconds by rebalance")
    for heading in ("shape", "first", "Kafka", "ratio", "second", "Kafka", "ratio", "client added"):
        table.add_column(heading, justify="left" if heading == "shape" else "right")
    for shape in track(shapes, "shapes", console=Console(stderr=True), disable=not sys.stderr.isatty()):
        result, first_s = timed_rebalance(first_rebalance(shape))
        _, second_s = timed_rebalance(second_rebalance(shape, result.assignments))
        _, client_added_s = timed_rebalance(client_added_rebalance(shape, result.assignments))
        table.add_row(
            str(shape),
            f"{first_s:.2f}",
            f"{shape.kafka_first_s:.2f}",
            f"{first_s / shape.kafka_first_s:.2f}",
            f"{second_s:.2f}",
            f"{shape.kafka_second_s:.2f}",
            f"{second_s / shape.kafka_second_s:.2f}",
            f"{client_added_s:.2f}",
        )
    console.print(table)
