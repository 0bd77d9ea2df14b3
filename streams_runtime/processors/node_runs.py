"""How a node of a task runs: called once a record, or once a batch. `TopologyTestDriver.node_runs` shows it.

Source: none in Kafka.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class RunsHow(StrEnum):
    ONCE_A_BATCH = "once a batch"
    ONCE_A_RECORD = "once a record"


class NodeRun(NamedTuple):
    """`why`: why a node that takes batches gets one record at a time; empty for other nodes."""

    how: RunsHow
    why: str = ""

    def __str__(self) -> str:
        return f"{self.how}: {self.why}" if self.why else str(self.how)
