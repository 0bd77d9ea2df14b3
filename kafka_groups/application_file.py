"""Reads an application as an operator describes it: a file with its topology, and its own properties.

The file is the text of the application's `Topology#describe`, or JSON: `input.topology` of rebalance/1, or a whole
definition (`input` of rebalance/1, as the coordinator takes it, or a line of a recording). Members and cluster in a
definition are ignored. Only the properties that the leader reads are used; an application has many others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from assignor.configs import KNOWN_KEYS, TOPIC_PREFIX
from assignor.errors import InputError
from assignor.recording.fields import as_assignor, as_object, document_of_line
from assignor.recording.topology_fields import as_topology
from assignor.topology.group_topology import GroupTopology

DEFAULT_ASSIGNOR = "HighAvailabilityTaskAssignor"
_PUBLIC_KEY, _INTERNAL_KEY = "task.assignor.class", "internal.task.assignor.class"
_OLD_STICKY = "StickyTaskAssignor"


@dataclass(frozen=True, slots=True)
class ApplicationFile:
    """Either `topology` or `description`, the text, is set. `configs`: under Kafka's dotted names."""

    path: str
    topology: GroupTopology | None
    description: str | None
    configs: Mapping[str, object]
    assignor: str | None


def read_application_file(path: Path) -> ApplicationFile:
    """Raises InputError, which names the file and what is wrong in it."""
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


def placement_configs(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of the application that the assignor uses."""
    return {key: value for key, value in properties.items() if key in KNOWN_KEYS or key.startswith(TOPIC_PREFIX)}


def configured_assignor(properties: Mapping[str, str]) -> str | None:
    """The simple name of the configured task assignor class, None when no class is configured."""
    for key in (_PUBLIC_KEY, _INTERNAL_KEY):
        name = properties.get(key, "").strip().rpartition(".")[2]
        if name:
            is_old = key == _INTERNAL_KEY and name == _OLD_STICKY
            return "LegacyStickyTaskAssignor" if is_old else name
    return None


def _as_text(content: bytes, path: Path) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("is neither JSON nor the text of Topology#describe: it is not UTF-8", str(path)) from None
