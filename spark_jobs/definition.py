"""A group's definition as one object: what is declared to the coordinator, and what members need to know of it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from assignor.errors import InputError
from assignor.recording import parse_rebalance_input, rebalance_input
from assignor.snapshot import RebalanceSnapshot
from assignor.types import TaskId, TopicPartition

Changelogs = Mapping[TaskId, Mapping[TopicPartition, int]]
"""Of each task with changelogs, its changelog partitions and their end offsets."""


@dataclass(frozen=True, slots=True)
class GroupDefinition:
    """`declared`: a rebalance/1 input whose members are not looked at; they come by joining."""

    group_id: str
    declared: RebalanceSnapshot

    @property
    def application_id(self) -> str:
        return self.declared.application_id

    def body(self) -> dict[str, object]:
        """The body of PUT /v1/groups/{group}: `input` of rebalance/1 without members and leader."""
        document = rebalance_input(replace(self.declared, members={}, leader_process_id=None))
        return {name: value for name, value in document.items() if name not in ("members", "leader_process_id")}

    def source_topics(self) -> tuple[str, ...]:
        """What every member subscribes to."""
        subtopologies = self.declared.topology.subtopologies
        return tuple(sorted({topic for subtopology in subtopologies for topic in subtopology.source_topics}))

    def changelogs(self) -> Changelogs:
        """The changelogs whose end offsets the definition tells; a task is as far as the sum over its changelogs."""
        of_tasks: dict[TaskId, dict[TopicPartition, int]] = {}
        ends = self.declared.changelog_end_offsets or {}
        for subtopology in self.declared.topology.subtopologies:
            for store in subtopology.stores:
                topic = store.changelog_topic or store.source_topic_as_changelog
                if topic is None:
                    continue
                committed = self.declared.committed_offsets.get(topic, ())
                for partition, end in enumerate(ends.get(topic) or [offset or 0 for offset in committed]):
                    task = of_tasks.setdefault(TaskId(subtopology.id, partition), {})
                    task[TopicPartition(topic, partition)] = end
        return of_tasks


def load_definition(reference: str) -> GroupDefinition:
    """The definition that `module:name` names.

    The object, or what it returns when it can be called, is a GroupDefinition, or a mapping with `group_id` and `input`
    (of rebalance/1; `members` and `leader_process_id` may be left out). Raises InputError.
    """
    module_name, separator, name = reference.partition(":")
    if not separator or not module_name or not name:
        raise InputError(f"{reference!r} is not module:name")
    try:
        found = getattr(importlib.import_module(module_name), name)
    except ImportError as fault:
        raise InputError(f"{module_name!r} cannot be imported: {fault}", reference) from fault
    except AttributeError as fault:
        raise InputError(f"module {module_name!r} has no {name!r}", reference) from fault
    return as_definition(found() if callable(found) else found, reference)


def as_definition(value: object, where: str) -> GroupDefinition:
    """Raises InputError."""
    if isinstance(value, GroupDefinition):
        return value
    if not isinstance(value, Mapping):
        raise InputError(f"gives {type(value).__name__}, not a GroupDefinition or a mapping", where)
    group_id, declared = value.get("group_id"), value.get("input")
    if not isinstance(group_id, str) or not isinstance(declared, Mapping):
        raise InputError("needs `group_id` (text) and `input` (an object, as in rebalance/1)", where)
    return GroupDefinition(
        group_id, parse_rebalance_input({"members": {}, "leader_process_id": None, **declared}, f"{where}: input")
    )
