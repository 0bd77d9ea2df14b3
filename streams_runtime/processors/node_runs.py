"""How a node of a task runs: in the loop that is written out, called once a record, or called once a batch.

`TopologyTestDriver.node_runs` tells it of a topology. Source: none in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class RunsHow(StrEnum):
    IN_THE_LOOP = "in the loop"
    ONCE_A_BATCH = "once a batch"
    ONCE_A_RECORD = "once a record"


class NodeRun(NamedTuple):
    """`why`: empty where it could not be better."""

    how: RunsHow
    why: str = ""

    def __str__(self) -> str:
        return f"{self.how}: {self.why}" if self.why else str(self.how)


class NodeRuns:
    """Of the nodes below one source. A node that is reached in several ways runs as in the slowest of them."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: dict[str, NodeRun] = {}

    def note(self, node: str, how: RunsHow, why: str = "") -> None:
        before = self._runs.get(node)
        if before is None or before.how is not RunsHow.ONCE_A_RECORD:
            self._runs[node] = NodeRun(how, why)

    def by_name(self) -> Mapping[str, NodeRun]:
        return self._runs
