"""Where the topology of a group comes from: a definition, the text of `Topology#describe`, or what the group shows.

Only with one of the first two is the leader's view complete: sinks and fixed partition counts show nowhere. Pure, but
for reading the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from assignor.errors import InputError
from assignor.topology.described.described_topology import DescribedTopology, topology_from_description
from assignor.topology.described.inferred import topology_from_cluster
from assignor.topology.group_topology import GroupTopology, Subtopology
from kafka_groups.application_file import read_application_file
from kafka_groups.recorder.shown_tasks import ShownTasks


class TopologySource(Protocol):
    """`origin`: in a few words for lines and people."""

    origin: str

    def topology(
        self, application_id: str, shown: ShownTasks, partition_counts: Mapping[str, int]
    ) -> DescribedTopology:
        """As it is known now. Raises InputError."""
        ...


class GivenTopology:
    """The same always: `input.topology` of rebalance/1, or a document that has it."""

    def __init__(self, topology: GroupTopology, origin: str) -> None:
        self.origin = origin
        self._topology = DescribedTopology(topology)

    def topology(
        self, application_id: str, shown: ShownTasks, partition_counts: Mapping[str, int]
    ) -> DescribedTopology:
        return self._topology


class TextTopology:
    """The text of `Topology#describe`, completed by the topics that the cluster has."""

    def __init__(self, text: str, origin: str) -> None:
        self.origin = origin
        self._text = text

    def topology(
        self, application_id: str, shown: ShownTasks, partition_counts: Mapping[str, int]
    ) -> DescribedTopology:
        return topology_from_description(
            self._text, application_id, partition_counts, has_run=bool(shown.assigned or shown.stateful)
        )


class ShownTopology:
    """Inferred from what the group shows."""

    origin = "inferred from assignments and topic names"

    def topology(
        self, application_id: str, shown: ShownTasks, partition_counts: Mapping[str, int]
    ) -> DescribedTopology:
        if not shown.assigned:
            sources = tuple(sorted(shown.subscribed))
            return DescribedTopology(
                GroupTopology((Subtopology(0, sources),)),
                ("no task has been seen yet: all topics that members subscribe to are taken as one subtopology",),
            )
        return topology_from_cluster(
            application_id, partition_counts, shown.subscribed, shown.assigned, stateful=shown.stateful
        )


def read_topology(path: Path) -> TopologySource:
    """JSON or text, by what it begins with. Raises InputError."""
    file = read_application_file(path)
    if file.topology is not None:
        return GivenTopology(file.topology, f"definition {path.name}")
    assert file.description is not None
    try:
        topology_from_description(file.description, "application")
    except InputError as error:
        if "the topics of the cluster are needed" not in str(error):
            raise InputError(str(error), str(path)) from None
    return TextTopology(file.description, f"Topology#describe text {path.name}")
