"""A group's definition as a PUT sends it: `input` of rebalance/1 without members and leader, checked whole.

When a definition describes its cluster, nothing else is known about topics and offsets: what a rebalance creates is not
added to the definition, and a later PUT replaces it. When it names a provider, every rebalance looks at the cluster.
Assignors named `module:Class` run only when the service's own settings list them.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from assignor.errors import InputError
from assignor.recording import is_class_path, parse_rebalance_input
from assignor.snapshot import RebalanceSnapshot
from assignor.task_assignors.base import TaskAssignor
from coordinator_api.clusters.providers import ClusterProviders, ProviderAddress, provider_address
from coordinator_api.errors import AssignorNotListed
from coordinator_api.settings import SettingsError

_DEFAULTS: Mapping[str, object] = {
    "configs": {},
    "existing_internal_topics": {},
    "changelog_end_offsets": {},
    "committed_offsets": {},
}
_NOT_OF_A_DEFINITION: Mapping[str, str] = {
    "members": "members join by POST of their subscriptions",
    "leader_process_id": "the leader is this service, which is in no process of the group",
}

_KNOWN_BY_THE_PROVIDER = ("existing_internal_topics", "changelog_end_offsets", "committed_offsets")


class AllowedAssignors:
    """The `module:Class` assignors that groups may name. Kafka's own are always allowed."""

    def __init__(self, class_paths: Iterable[str]) -> None:
        """Loads each, so that a wrong setting fails the start. Raises SettingsError."""
        self._loaded = {path: _load(path) for path in class_paths}

    def check(self, assignor: str) -> None:
        """Raises AssignorNotListed for a class that the settings do not list."""
        if is_class_path(assignor) and assignor not in self._loaded:
            raise AssignorNotListed(
                f"assignor: {assignor[:100]} is not listed in this service's setting task.assignor.classes", "assignor"
            )

    def load(self, assignor: str) -> TaskAssignor | None:
        """The user's own assignor; None for one of Kafka's, which the pipeline knows itself."""
        if not is_class_path(assignor):
            return None
        if assignor not in self._loaded:
            raise InputError(f"{assignor} is no longer listed in the setting task.assignor.classes", "assignor")
        return self._loaded[assignor]


def _load(path: str) -> TaskAssignor:
    if not is_class_path(path):
        raise SettingsError(f"task.assignor.classes: {path!r} is not of the form module:Class")
    module_name, _, class_name = path.partition(":")
    try:
        assignor = getattr(importlib.import_module(module_name), class_name)()
    except Exception as error:  # whatever the user's module does on import
        raise SettingsError(f"task.assignor.classes: {path} cannot be loaded: {error}") from error
    if not callable(getattr(assignor, "assign", None)):
        raise SettingsError(f"task.assignor.classes: {path} has no method assign(problem, log)")
    return assignor  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Definition:
    """`snapshot`: without members; without a cluster, too, when `provider` says where to look at it."""

    snapshot: RebalanceSnapshot
    provider: ProviderAddress | None


def read_definition(
    document: dict[str, object], group_id: str, max_partitions: int, providers: ClusterProviders | None = None
) -> str:
    """The definition in one canonical spelling. A missing `application_id` is the group's id.

    `providers`: None when no cluster may be named. Raises InputError with the field, NotBuiltYet.
    """
    for name, reason in _NOT_OF_A_DEFINITION.items():
        if document.get(name) not in (None, {}):
            raise InputError(f"is not part of a definition: {reason}", name)
    provider = provider_address(document.get("cluster"))
    if provider is not None:
        (providers or ClusterProviders()).check(provider)
        for name in _KNOWN_BY_THE_PROVIDER:
            if document.get(name):
                raise InputError("comes from the cluster's provider; leave it out", name)
    complete = {
        **_DEFAULTS,
        "application_id": group_id,
        **document,
        "members": {},
        "leader_process_id": None,
    }
    check_size(_parse(complete, "").snapshot, max_partitions)
    return json.dumps(complete, sort_keys=True, separators=(",", ":"))


def check_size(snapshot: RebalanceSnapshot, max_partitions: int) -> None:
    """A few bytes can ask for millions of partitions, each of which becomes a task. Raises InputError for too many."""
    partitions = partition_total(snapshot)
    if partitions > max_partitions:
        raise InputError(f"{partitions} partitions are more than group.max.partitions, {max_partitions}", "cluster")


def partition_total(snapshot: RebalanceSnapshot) -> int:
    """The partitions of all topics that exist, and of repartition topics whose number of partitions is fixed."""
    topics = (*snapshot.cluster.topics.values(), *snapshot.existing_internal_topics.values())
    fixed = (topic for each in snapshot.topology.subtopologies for topic in each.repartition_source_topics)
    return sum(topic.partitions for topic in topics) + sum(topic.partitions or 0 for topic in fixed)


def read_input(input_json: str) -> Definition:
    """What `read_definition` wrote."""
    return _parse(json.loads(input_json), "input")


def _parse(complete: dict[str, object], where: str) -> Definition:
    provider = provider_address(complete.get("cluster"))
    if provider is not None:
        complete = {**complete, "cluster": {"brokers": [], "topics": {}}}
    return Definition(parse_rebalance_input(complete, where), provider)
