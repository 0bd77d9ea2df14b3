"""What a leader has to be told of the application: its topology and its placement configs.

Either the text of the application's `Topology#describe`, or JSON: `input.topology` of rebalance/1, or a whole
definition (`input` of rebalance/1, as the coordinator takes it, or a line of a recording), of which members and cluster
are passed over. What is said on the command line goes before what the file says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from assignor.cluster import Cluster
from assignor.configs import KNOWN_KEYS, TOPIC_PREFIX, AssignmentConfigs
from assignor.errors import InputError
from assignor.recording.assignors import as_assignor
from assignor.recording.fields import as_object
from assignor.recording.json_line import document_of_line
from assignor.recording.topology_fields import as_topology
from assignor.snapshot import RebalanceSnapshot
from assignor.topology.described import topology_from_description
from assignor.topology.topology import Topology
from streams_runtime.leader.store_options import StoreFacts

DEFAULT_ASSIGNOR = "HighAvailabilityTaskAssignor"
_NOTHING_SAID = StoreFacts()


@dataclass(frozen=True, slots=True)
class ApplicationFile:
    """One of `topology` and `description` is set. `configs`: Kafka's dotted names."""

    path: str
    topology: Topology | None
    description: str | None
    configs: Mapping[str, object]
    assignor: str | None

    def definition(
        self,
        group: str,
        assignor: str | None,
        configs: Mapping[str, object],
        partition_counts: Mapping[str, int],
        stores: StoreFacts = _NOTHING_SAID,
    ) -> tuple[RebalanceSnapshot, tuple[str, ...]]:
        """Without members and cluster, and what had to be assumed. `partition_counts`: of the cluster's topics;
        `stores`: what the text does not say of them. Raises InputError.
        """
        topology = self.topology
        assumptions: tuple[str, ...] = ()
        if topology is not None and stores:
            raise InputError(f"goes with the text of Topology#describe only; {self.path} has the stores", "--store")
        if topology is None:
            assert self.description is not None
            try:
                described = topology_from_description(
                    self.description,
                    group,
                    partition_counts,
                    not_logged=stores.not_logged,
                    source_changelogs=stores.source_changelogs,
                    retention_ms=stores.retention_ms,
                    creates_missing=True,
                )
            except InputError as error:
                raise InputError(str(error), self.path) from None
            topology, assumptions = described.topology, described.assumptions
        snapshot = RebalanceSnapshot(
            assignor=as_assignor(assignor or self.assignor or DEFAULT_ASSIGNOR, "--assignor"),
            configs=AssignmentConfigs.from_dotted({**self.configs, **configs}, "--config"),
            application_id=group,
            topology=topology,
            cluster=Cluster((), {}),
            members={},
        )
        return snapshot, assumptions


def read_application_file(path: Path) -> ApplicationFile:
    """Raises InputError saying what is wrong where."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", str(path)) from None
    if not content.lstrip().startswith(b"{"):
        return ApplicationFile(str(path), None, _as_text(content, path), {}, None)
    try:
        document: Mapping[str, object] = document_of_line(content)
    except InputError as error:
        raise InputError(str(error), str(path)) from None
    if "subtopologies" in document:
        return ApplicationFile(str(path), as_topology(document, str(path)), None, {}, None)
    if "input" in document:
        document = as_object(document["input"], f"{path}: input")
    if "topology" not in document:
        raise InputError(
            "has neither 'subtopologies' (input.topology of rebalance/1) nor 'topology' (a whole definition)", str(path)
        )
    configs = document.get("configs")
    assignor = document.get("assignor")
    return ApplicationFile(
        str(path),
        as_topology(document["topology"], f"{path}: topology"),
        None,
        {} if configs is None else as_object(configs, f"{path}: configs"),
        None if assignor is None else as_assignor(assignor, f"{path}: assignor"),
    )


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


def configs_of_application(properties: Mapping[str, str]) -> dict[str, str]:
    """The assignor's part of the application's own properties."""
    return {key: value for key, value in properties.items() if key in KNOWN_KEYS or key.startswith(TOPIC_PREFIX)}


def _as_text(content: bytes, path: Path) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("is neither JSON nor the text of Topology#describe: it is not UTF-8", str(path)) from None
