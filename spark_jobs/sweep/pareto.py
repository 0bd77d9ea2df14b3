"""The Pareto front: the points that no other point beats, being as good in everything and better in something."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

Vector = tuple[float, ...]


class Better(Enum):
    """Which way is better, along one measure."""

    LESS = 1
    MORE = -1


def pareto_front(vectors: Sequence[Vector], directions: Sequence[Better]) -> list[int]:
    """Indices of the points on the front, ascending; points that are equal are on it together or not at all.

    Sorted best first, a point can only be beaten by one before it, and then by one of the front: n · front steps.
    """
    signed = [_signed(vector, directions) for vector in vectors]
    kept: list[Vector] = []
    for vector in sorted(set(signed)):
        if not any(_no_worse(other, vector) for other in kept):
            kept.append(vector)
    front = set(kept)
    return [index for index, vector in enumerate(signed) if vector in front]


def dominates(one: Vector, other: Vector, directions: Sequence[Better]) -> bool:
    """As good in everything and better in something."""
    return one != other and _no_worse(_signed(one, directions), _signed(other, directions))


def _signed(vector: Vector, directions: Sequence[Better]) -> Vector:
    return tuple(value * direction.value for value, direction in zip(vector, directions, strict=True))


def _no_worse(one: Vector, other: Vector) -> bool:
    return all(mine <= theirs for mine, theirs in zip(one, other, strict=True))
