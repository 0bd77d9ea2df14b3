"""Where a group's topology comes from: a definition, the text of `Topology#describe`, or what its members reveal.

Only the first two give the leader's complete view: sinks and fixed partition counts are revealed nowhere. Members
reveal the topics that they read, their tasks with partitions, and which tasks are stateful. The n-th partition of an
assignment belongs to the n-th active task of its AssignmentInfo; standby tasks list their partitions themselves. Facts
that earlier generations revealed still count, until the members subscribe to other topics. Pure, except for reading the
file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from assignor.errors import DecodeError, InputError
from assignor.protocol.assignment_info import decode_assignment_info
from assignor.protocol.consumer_protocol import decode_assignment
from assignor.protocol.group_metadata import MemberMetadata
from assignor.protocol.subscription_info import decode_member
from assignor.topology.group_topology import GroupTopology, Subtopology
from assignor.types import TaskId, TopicPartition
from kafka_groups.application_file import read_application_file
from kafka_groups.described.described_topology import DescribedTopology, topology_from_description
from kafka_groups.described.inferred import topology_from_cluster
from kafka_groups.topology_facts import TopologyFacts

_NO_FACTS = TopologyFacts()


class ShownTasks:
    """Collected over all generations so far. `subscribed`: topics of any member of the last one."""

    def __init__(self) -> None:
        self.subscribed: frozenset[str] = frozenset()
        self.assigned: dict[TaskId, set[TopicPartition]] = {}
        self.stateful: set[TaskId] = set()

    def add(self, members: Iterable[MemberMetadata]) -> None:
        """Add the facts that one generation reveals. Raises DecodeError."""
        members = tuple(members)
        sent = [decode_member(member.subscription) for member in members]
        subscribed = frozenset(topic for each in sent for topic in each.subscription.topics)
        if subscribed != self.subscribed:
            self.forget()
            self.subscribed = subscribed
        for each in sent:
            self.stateful.update(each.info.task_offset_sums)
        for member in members:
            self._add_assignment(member)

    def forget(self) -> None:
        self.assigned.clear()
        self.stateful.clear()

    def _add_assignment(self, member: MemberMetadata) -> None:
        assignment = decode_assignment(member.assignment)
        info = decode_assignment_info(assignment.user_data or b"")
        if len(info.active_tasks) != len(assignment.partitions):
            raise DecodeError(
                f"assignment of {member.member_id}",
                f"{len(info.active_tasks)} active tasks for {len(assignment.partitions)} partitions",
                0,
            )
        for task, partition in zip(info.active_tasks, assignment.partitions, strict=True):
            self.assigned.setdefault(task, set()).add(partition)
        for task, partitions in info.standby_tasks.items():
            self.assigned.setdefault(task, set()).update(partitions)


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
