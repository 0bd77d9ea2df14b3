"""Reads the command-line options for each group: its assignor, its configs, and the source of its topology.

The options `--topology` and `--config-file` take `GROUP=FILE` for one group, or `FILE` for all groups. The option
`--config` takes `GROUP:key=value` for one group, or `key=value` for all groups. In a file of an application's
properties, keys that the assignor does not use are ignored. In `--config`, an unknown key is an error. `--config`
overrides `--config-file`.

A topology comes from a definition, from the text of `Topology#describe`, or from the members' subscriptions and
assignments. The members' subscriptions and assignments show only a part of the topology: the topics, the tasks with
their partitions, and the stateful tasks. The subscriptions and assignments do not show sinks and fixed partition
counts. The n-th partition of an assignment belongs to the n-th active task of its AssignmentInfo. For each standby
task, the AssignmentInfo lists the partitions. Facts from earlier generations are used until the members subscribe to
other topics.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from assignor.configs import KAFKA_VERSION, AssignmentConfigs
from assignor.configs.kafka_versions import VERSION_OF_NEW_GROUPS
from assignor.errors import DecodeError, InputError
from assignor.protocol.assignment_info import decode_assignment_info
from assignor.protocol.consumer_protocol import decode_assignment
from assignor.protocol.group_metadata import MemberMetadata
from assignor.protocol.subscription_info import decode_member
from assignor.recording.fields import as_assignor, is_class_path
from assignor.task_assignors.base import TaskAssignor
from assignor.topology.group_topology import GroupTopology, Subtopology
from assignor.types import TaskId, TopicPartition
from kafka_client.settings.properties_file import read_properties_file
from kafka_groups.application import (
    DEFAULT_ASSIGNOR,
    ApplicationFile,
    TopologyFacts,
    configured_assignor,
    placement_configs,
    read_application_file,
)
from kafka_groups.described.described_topology import DescribedTopology, topology_from_description
from kafka_groups.described.inferred import topology_from_cluster
from rebalance_analysis.reading.own_assignors import load_own_assignor

_NO_FACTS = TopologyFacts()


class ShownTasks:
    """The tasks that the subscriptions and assignments of past generations show. `subscribed`: the topics to which the
    members of the last generation subscribe.
    """

    def __init__(self) -> None:
        self.subscribed: frozenset[str] = frozenset()
        self.assigned: dict[TaskId, set[TopicPartition]] = {}
        self.stateful: set[TaskId] = set()

    def add(self, members: Iterable[MemberMetadata]) -> None:
        """Adds the facts that the members of one generation show. Raises DecodeError."""
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


@dataclass(frozen=True, slots=True)
class TopologySource:
    """The source of a group's topology. `file`: a file with a definition or with the text of `Topology#describe`; None
    to infer the topology from the members' tasks. `facts`: facts that the text of `Topology#describe` lacks.
    """

    file: ApplicationFile | None = None
    facts: TopologyFacts = _NO_FACTS

    @property
    def origin(self) -> str:
        """A short description of the source. The recorded line and messages show this description."""
        if self.file is None:
            return "inferred from assignments and topic names"
        kind = "Topology#describe text" if self.file.topology is None else "definition"
        return f"{kind} {Path(self.file.path).name}"

    def topology(
        self, application_id: str, shown: ShownTasks, partition_counts: Mapping[str, int]
    ) -> DescribedTopology:
        """Returns the topology. A topology that is inferred from members contains only what is known now. Raises
        InputError.
        """
        if self.file is not None and self.file.topology is not None:
            return DescribedTopology(self.file.topology)
        if self.file is not None and self.file.description is not None:
            return topology_from_description(
                self.file.description,
                application_id,
                partition_counts,
                stores=self.facts.stores,
                copartition=self.facts.copartition,
                has_run=bool(shown.assigned or shown.stateful),
            )
        if not shown.assigned:
            return DescribedTopology(
                GroupTopology((Subtopology(0, tuple(sorted(shown.subscribed))),)),
                ("no task has been seen yet, so all topics that members subscribe to are taken as one subtopology",),
            )
        return topology_from_cluster(
            application_id, partition_counts, shown.subscribed, shown.assigned, stateful=shown.stateful
        )


def read_topology(path: Path, facts: TopologyFacts = _NO_FACTS) -> TopologySource:
    """Reads a topology file. A file that begins with a brace is JSON. Any other file is the text of
    `Topology#describe`. Raises InputError.
    """
    file = read_application_file(path)
    if file.topology is not None:
        facts.check_unused(str(path))
    else:
        assert file.description is not None
        try:
            topology_from_description(file.description, "application", stores=facts.stores)
        except InputError as error:
            if "the topics of the cluster are needed" not in str(error):
                raise InputError(str(error), str(path)) from None
    return TopologySource(file, facts)


@dataclass(frozen=True, slots=True)
class GroupChoices:
    """The choices for one group. `task_assignor`: an instance of the user's assignor class, if the field `assignor` is
    the path of a class; otherwise None.
    """

    group: str
    assignor: str
    configs: AssignmentConfigs
    topology: TopologySource
    task_assignor: TaskAssignor | None = None


def group_choices(
    groups: Sequence[str],
    topologies: Sequence[str],
    config_files: Sequence[str],
    configs: Sequence[str],
    assignor: str | None,
    facts: TopologyFacts = _NO_FACTS,
) -> list[GroupChoices]:
    """Returns the choices for each group, in the order of `groups`. `facts`: facts that the texts of
    `Topology#describe` lack. Raises InputError.
    """
    if not groups:
        raise InputError("name at least one group; a Kafka Streams group has the application.id as its name", "--group")
    if len(set(groups)) < len(groups) or not all(groups):
        raise InputError("name each group once; a name must not be empty", "--group")
    topology_files = _per_group(groups, topologies, "--topology")
    property_files = _per_group(groups, config_files, "--config-file")
    chosen = []
    for group in groups:
        explicit = explicit_configs(groups, configs, group)
        properties = read_properties_file(property_files[group]) if group in property_files else {}
        dotted = {KAFKA_VERSION: str(VERSION_OF_NEW_GROUPS), **placement_configs(properties), **explicit}
        parsed = AssignmentConfigs.from_dotted(dotted, f"configs of {group}")
        name = as_assignor(assignor or configured_assignor(properties) or DEFAULT_ASSIGNOR, "--assignor")
        source = read_topology(Path(topology_files[group]), facts) if group in topology_files else TopologySource()
        own_assignor = load_own_assignor(name) if is_class_path(name) else None
        chosen.append(GroupChoices(group, name, parsed, source, own_assignor))
    return chosen


def _per_group(groups: Sequence[str], values: Sequence[str], option: str) -> dict[str, str]:
    chosen: dict[str, str] = {}
    for value in values:
        group, equals, file = value.partition("=")
        if not equals or group not in groups:
            if equals and not Path(value).exists():
                raise InputError(f"{group!r} is not one of the groups ({', '.join(groups)})", option)
            chosen.update({each: value for each in groups if each not in chosen})
        else:
            chosen[group] = file
    return chosen


def explicit_configs(groups: Sequence[str], configs: Sequence[str], group: str = "") -> dict[str, str]:
    """Returns the configs that the options `--config` set for a group. A config for one group overrides a config for
    all groups. `group`: the id of the group; empty for an imported log file, which has no groups. Raises InputError.
    """
    for_all: dict[str, str] = {}
    for_group: dict[str, str] = {}
    for text in configs:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise InputError(f"must be key=value or GROUP:key=value, not {text!r}", "--config")
        of_group, colon, rest = key.rpartition(":")
        if not colon:
            for_all[key.strip()] = value.strip()
        elif of_group not in groups:
            raise InputError(f"{of_group!r} is not one of the groups ({', '.join(groups)})", "--config")
        elif of_group == group:
            for_group[rest.strip()] = value.strip()
    return {**for_all, **for_group}
