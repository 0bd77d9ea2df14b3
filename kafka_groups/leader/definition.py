"""What a leader leads: the application's file, completed by the command line and by the topics of the cluster.

The command line overrides the file. The text of `Topology#describe` lacks some facts about stores, which `--store`
adds: `STORE=not-logged`, `STORE=topic:NAME` (restored from a topic that the application reads, without a changelog of
its own) and `STORE=retention.ms:N` (windowed; its changelog keeps windowstore.changelog.additional.retention.ms more).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from assignor.cluster import Cluster
from assignor.configs import AssignmentConfigs
from assignor.errors import InputError
from assignor.recording.assignor_fields import as_assignor
from assignor.snapshot import RebalanceSnapshot
from assignor.topology.described.described_topology import topology_from_description
from kafka_groups.application_file import DEFAULT_ASSIGNOR, ApplicationFile


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """What the text of a topology lacks, by store name. `source_changelogs`: to the topic; `retention_ms`: of windowed
    stores.
    """

    not_logged: frozenset[str] = frozenset()
    source_changelogs: Mapping[str, str] = field(default_factory=dict)
    retention_ms: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.not_logged or self.source_changelogs or self.retention_ms)


_NO_STORE_FACTS = StoreFacts()


def definition_of(
    file: ApplicationFile,
    group: str,
    assignor: str | None,
    configs: Mapping[str, object],
    partition_counts: Mapping[str, int],
    stores: StoreFacts = _NO_STORE_FACTS,
) -> tuple[RebalanceSnapshot, tuple[str, ...]]:
    """The group without members and cluster, and the assumptions made, as sentences.

    `partition_counts`: topic of the cluster to its partitions. Raises InputError.
    """
    topology = file.topology
    assumptions: tuple[str, ...] = ()
    if topology is not None and stores:
        raise InputError(
            f"goes with the text of Topology#describe only; {file.path} already describes its stores", "--store"
        )
    if topology is None:
        assert file.description is not None
        try:
            described = topology_from_description(
                file.description,
                group,
                partition_counts,
                not_logged=stores.not_logged,
                source_changelogs=stores.source_changelogs,
                retention_ms=stores.retention_ms,
                creates_missing=True,
            )
        except InputError as error:
            raise InputError(str(error), file.path) from None
        topology, assumptions = described.topology, described.assumptions
    snapshot = RebalanceSnapshot(
        assignor=as_assignor(assignor or file.assignor or DEFAULT_ASSIGNOR, "--assignor"),
        configs=AssignmentConfigs.from_dotted({**file.configs, **configs}, "--config"),
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


def stores_from_options(options: Sequence[str]) -> StoreFacts:
    """Each option is `STORE=WHAT`, as above. Raises InputError."""
    not_logged: set[str] = set()
    source_changelogs: dict[str, str] = {}
    retention_ms: dict[str, int] = {}
    for option in options:
        store, _, fact = option.partition("=")
        kind, _, value = fact.partition(":")
        if store in not_logged or store in source_changelogs or store in retention_ms:
            raise InputError(f"{store} is given twice", "--store")
        if store and fact == "not-logged":
            not_logged.add(store)
        elif store and kind == "topic" and value:
            source_changelogs[store] = value
        elif store and kind == "retention.ms" and value.isascii() and value.isdecimal():
            retention_ms[store] = int(value)
        else:
            forms = "STORE=not-logged, STORE=topic:NAME or STORE=retention.ms:N"
            raise InputError(f"must be {forms}, not {option!r}", "--store")
    return StoreFacts(frozenset(not_logged), source_changelogs, retention_ms)
