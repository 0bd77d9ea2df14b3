"""The tasks and partitions that groups have: one value for each, however often it is read from bytes.

Every member of a group reports its tasks and partitions in each rebalance. A look-up by the value that a mapping was
filled with compares nothing, and what is kept is neither made nor freed again. Only a topology adds to what is known,
never the bytes that a member sent.

Both are numbered from zero, and found in a list by their number. A dict would look at four places in memory for each;
of tens of thousands, none is in a processor's cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, repeat
from operator import getitem
from typing import Any, TypeVar

from assignor.types import TaskId, TopicPartition

Value = TypeVar("Value", TaskId, TopicPartition)

_MOST_KEPT = 1 << 18

_TASKS: dict[Any, Sequence[TaskId]] = {}
"""By subtopology."""

_PARTITIONS: dict[Any, Sequence[TopicPartition]] = {}
"""By topic."""


def tasks_of_columns(subtopologies: Iterable[int], partitions: Iterable[int]) -> Sequence[TaskId]:
    """Unnamed tasks. `subtopologies`: at least one for each."""
    return _of_columns(_TASKS, TaskId, subtopologies, partitions, repeat(None))


def partitions_of_columns(topics: Iterable[str | None], numbers: Iterable[int]) -> Sequence[TopicPartition]:
    """`topics`: at least one for each."""
    return _of_columns(_PARTITIONS, TopicPartition, topics, numbers)


def keep(tasks: Mapping[int, Sequence[TaskId]], partitions: Mapping[str, Sequence[TopicPartition]]) -> None:
    """From now on these are the values: all of a subtopology, and all of a topic, by number. Once there are too many,
    the others are forgotten.
    """
    _keep(_TASKS, tasks)
    _keep(_PARTITIONS, partitions)


def _of_columns(
    known: Mapping[Any, Sequence[Value]],
    kind: type[Value],
    owners: Iterable[Any],
    numbers: Iterable[int],
    *others: Iterable[Any],
) -> Sequence[Value]:
    """`others`: the columns after the first two."""
    numbers = list(numbers)
    owners = list(islice(owners, len(numbers)))
    if not numbers:
        return ()
    if min(numbers) >= 0:
        first = owners[0]
        try:
            if owners.count(first) == len(owners):
                return list(map(known[first].__getitem__, numbers))
            return list(map(getitem, map(known.__getitem__, owners), numbers))
        except LookupError:
            pass  # not all of them are known
    made = map(tuple.__new__, repeat(kind), zip(owners, numbers, *others, strict=False))
    if known.keys().isdisjoint(owners):
        return list(made)
    return [
        of_owner[number] if 0 <= number < len(of_owner) else new
        for of_owner, number, new in zip(map(known.get, owners, repeat(())), numbers, made, strict=True)
    ]


def _keep(known: dict[Any, Sequence[Value]], values: Mapping[Any, Sequence[Value]]) -> None:
    count = sum(map(len, values.values()))
    if sum(map(len, known.values())) + count > _MOST_KEPT:
        known.clear()
    if count <= _MOST_KEPT:
        known.update(
            {owner: of_owner for owner, of_owner in values.items() if len(of_owner) > len(known.get(owner, ()))}
        )
