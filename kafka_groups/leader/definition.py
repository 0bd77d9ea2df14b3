"""The definition of the application to lead: its file, completed by the command line and by the topics of the cluster.

The command line overrides the file. The text of `Topology#describe` lacks some facts. The configs of an existing
changelog show the kind of its store. `TopologyFacts` from the command line add facts that the cluster does not show,
and override the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from assignor.cluster import Cluster
from assignor.configs import AssignmentConfigs
from assignor.errors import InputError
from assignor.recording.fields import as_assignor
from assignor.snapshot import RebalanceSnapshot
from kafka_groups.application_file import DEFAULT_ASSIGNOR, ApplicationFile
from kafka_groups.described.described_topology import topology_from_description
from kafka_groups.topology_facts import TopologyFacts

_NO_FACTS = TopologyFacts()
_WHAT_TO_DO = (
    "say what each of these stores is before the application starts, so that its changelog is created as a JVM creates "
    "it: --store STORE=key-value, --store STORE=retention.ms:N (windowed) or --store STORE=history.retention.ms:N "
    "(versioned)"
)


@dataclass(frozen=True, slots=True)
class SeenTopics:
    """Topics of the cluster. `partition_counts`: topic to its partitions. `changelog_configs`: changelog to the configs
    that are set on it; without changelogs whose configs this user may not read.
    """

    partition_counts: Mapping[str, int]
    changelog_configs: Mapping[str, Mapping[str, str]]


def changelogs_among(topics: Iterable[str], group: str) -> list[str]:
    """The topics whose name is that of a changelog of this application."""
    return sorted(topic for topic in topics if topic.startswith(f"{group}-") and topic.endswith("-changelog"))


def definition_of(
    file: ApplicationFile,
    group: str,
    assignor: str | None,
    configs: Mapping[str, object],
    seen: SeenTopics,
    facts: TopologyFacts = _NO_FACTS,
) -> tuple[RebalanceSnapshot, tuple[str, ...]]:
    """The group without members and cluster; and sentences with the assumptions made and how to replace them.

    Raises InputError.
    """
    placement = AssignmentConfigs.from_dotted({**file.configs, **configs}, "--config")
    topology = file.topology
    assumptions: tuple[str, ...] = ()
    if topology is not None:
        facts.check_unused(file.path)
    if topology is None:
        assert file.description is not None
        try:
            described = topology_from_description(
                file.description,
                group,
                seen.partition_counts,
                stores=facts.stores,
                copartition=facts.copartition,
                changelog_configs=seen.changelog_configs,
                configs=placement,
                creates_missing=True,
            )
        except InputError as error:
            raise InputError(str(error), file.path) from None
        topology, assumptions = described.topology, described.assumptions
        if described.stores_in_doubt:
            assumptions = (*assumptions, _WHAT_TO_DO)
    snapshot = RebalanceSnapshot(
        assignor=as_assignor(assignor or file.assignor or DEFAULT_ASSIGNOR, "--assignor"),
        configs=placement,
        application_id=group,
        topology=topology,
        cluster=Cluster((), {}),
        members={},
    )
    return snapshot, assumptions


def configs_from_options(options: list[str]) -> dict[str, str]:
    """Each option is `key=value`. Raises InputError."""
    configs: dict[str, str] = {}
    for option in options:
        key, separator, value = option.partition("=")
        if not separator or not key:
            raise InputError(f"must be key=value, not {option!r}", "--config")
        if key in configs:
            raise InputError(f"{key} is given twice", "--config")
        configs[key] = value
    return configs
