"""Where a group's topology comes from: a definition, the text of `Topology#describe`, or what its members reveal.

Only the first two give the leader's complete view, because sinks and fixed partition counts are revealed nowhere. Pure,
except for reading the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from assignor.errors import InputError
from assignor.topology.group_topology import GroupTopology, Subtopology
from kafka_groups.application_file import read_application_file
from kafka_groups.described.described_topology import DescribedTopology, topology_from_description
from kafka_groups.described.inferred import topology_from_cluster
from kafka_groups.recorder.shown_tasks import ShownTasks
from kafka_groups.topology_facts import TopologyFacts

_NO_FACTS = TopologyFacts()


class TopologySource(Protocol):
    """`origin`: a few words for the recorded line and for people."""

    origin: str

    def topology(
        self, application_id: str, shown: ShownTasks, partition_counts: Mapping[str, int]
    ) -> DescribedTopology:
        """The topology as known now. Raises InputError."""
        ...


class GivenTopology:
    """A fixed topology: `input.topology` of rebalance/1, or a document that contains it."""

    def __init__(self, topology: GroupTopology, origin: str) -> None:
        self.origin = origin
        self._topology = DescribedTopology(topology)

    def topology(
        self, application_id: str, shown: ShownTasks, partition_counts: Mapping[str, int]
    ) -> DescribedTopology:
        return self._topology


class TextTopology:
    """The text of `Topology#describe`, completed by the topics of the cluster."""

    def __init__(self, text: str, origin: str, facts: TopologyFacts = _NO_FACTS) -> None:
        self.origin = origin
        self._text = text
        self._facts = facts

    def topology(
        self, application_id: str, shown: ShownTasks, partition_counts: Mapping[str, int]
    ) -> DescribedTopology:
        return topology_from_description(
            self._text,
            application_id,
            partition_counts,
            stores=self._facts.stores,
            copartition=self._facts.copartition,
            has_run=bool(shown.assigned or shown.stateful),
        )


class ShownTopology:
    """Inferred from what the members reveal."""

    origin = "inferred from assignments and topic names"

    def topology(
        self, application_id: str, shown: ShownTasks, partition_counts: Mapping[str, int]
    ) -> DescribedTopology:
        if not shown.assigned:
            sources = tuple(sorted(shown.subscribed))
            return DescribedTopology(
                GroupTopology((Subtopology(0, sources),)),
                ("no task has been seen yet, so all topics that members subscribe to are taken as one subtopology",),
            )
        return topology_from_cluster(
            application_id, partition_counts, shown.subscribed, shown.assigned, stateful=shown.stateful
        )


def read_topology(path: Path, facts: TopologyFacts = _NO_FACTS) -> TopologySource:
    """The file is JSON when it begins with a brace, else text. Raises InputError."""
    file = read_application_file(path)
    if file.topology is not None:
        facts.check_unused(str(path))
        return GivenTopology(file.topology, f"definition {path.name}")
    assert file.description is not None
    try:
        topology_from_description(file.description, "application", stores=facts.stores)
    except InputError as error:
        if "the topics of the cluster are needed" not in str(error):
            raise InputError(str(error), str(path)) from None
    return TextTopology(file.description, f"Topology#describe text {path.name}", facts)
