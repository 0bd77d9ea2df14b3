"""The tasks and partitions that groups have: one value for each, however often it is read from bytes.

Every member of a group reports its tasks and partitions in each rebalance. A look-up by the value that a mapping was
filled with compares nothing, and what is kept is neither made nor freed again. Only a topology adds to what is known,
never the bytes that a member sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

from assignor.types import TaskId, TopicPartition

_MOST_KEPT = 1 << 18


class _KnownTasks(dict[tuple[Any, ...], TaskId]):
    def __missing__(self, key: tuple[Any, ...]) -> TaskId:
        return tuple.__new__(TaskId, key)


class _KnownPartitions(dict[tuple[Any, ...], TopicPartition]):
    def __missing__(self, key: tuple[Any, ...]) -> TopicPartition:
        return tuple.__new__(TopicPartition, key)


_TASKS = _KnownTasks()
_PARTITIONS = _KnownPartitions()


def tasks_of_columns(subtopologies: Iterable[int], partitions: Iterable[int]) -> Iterable[TaskId]:
    """Unnamed tasks."""
    return map(_TASKS.__getitem__, zip(subtopologies, partitions, repeat(None), strict=False))


def partitions_of_columns(topics: Iterable[str | None], numbers: Iterable[int]) -> Iterable[TopicPartition]:
    return map(_PARTITIONS.__getitem__, zip(topics, numbers, strict=False))


def keep(tasks: Sequence[TaskId], partitions: Sequence[TopicPartition]) -> None:
    """From now on these are the values. Once there are too many, the others are forgotten."""
    _keep(_TASKS, tasks)
    _keep(_PARTITIONS, partitions)


def _keep(known: dict[tuple[Any, ...], Any], values: Sequence[tuple[Any, ...]]) -> None:
    if len(known) + len(values) > _MOST_KEPT:
        known.clear()
    if len(values) <= _MOST_KEPT:
        known.update(zip(values, values, strict=True))
