"""What a leader leads: the application's file, completed by the command line and by the topics that the cluster has.

What is said on the command line goes before what the file says.
"""

from __future__ import annotations

from collections.abc import Mapping

from assignor.cluster import Cluster
from assignor.configs import AssignmentConfigs
from assignor.errors import InputError
from assignor.recording.assignor_fields import as_assignor
from assignor.snapshot import RebalanceSnapshot
from assignor.topology.described.described_topology import topology_from_description
from kafka_groups.application_file import DEFAULT_ASSIGNOR, ApplicationFile
from kafka_groups.leader.store_options import StoreFacts

_NOTHING_SAID = StoreFacts()


def definition_of(
    file: ApplicationFile,
    group: str,
    assignor: str | None,
    configs: Mapping[str, object],
    partition_counts: Mapping[str, int],
    stores: StoreFacts = _NOTHING_SAID,
) -> tuple[RebalanceSnapshot, tuple[str, ...]]:
    """Without members and cluster, and what had to be assumed. `partition_counts`: of the cluster's topics;
    `stores`: what the text does not say of them. Raises InputError.
    """
    topology = file.topology
    assumptions: tuple[str, ...] = ()
    if topology is not None and stores:
        raise InputError(f"goes with the text of Topology#describe only; {file.path} has the stores", "--store")
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
    """`key=value` each. Raises InputError."""
    configs: dict[str, str] = {}
    for option in options:
        key, separator, value = option.partition("=")
        if not separator or not key:
            raise InputError(f"must be key=value, not {option!r}", "--config")
        if key in configs:
            raise InputError(f"{key} is given twice", "--config")
        configs[key] = value
    return configs
