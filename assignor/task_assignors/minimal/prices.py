"""What it costs to place a task, as one number: comparing sums compares one criterion after the other.

From the first criterion to the last: shares that are kept, tasks that move, the weight that moves, partitions read
across racks, and how far the copies are from caught up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assignor.task_assignors.minimal.copies import NO_COPY


@dataclass(frozen=True, slots=True)
class Prices:
    """Each price is more than everything below it can add up to.

    `foreign`: of one partition that is read across racks; `weight`: of one unit of weight away from home; `move`: of
    one task away from home; `uneven_class`, `uneven_client`: of one task more than the lower bound, and so one fewer
    elsewhere.
    """

    foreign: int
    weight: int
    move: int
    uneven_class: int
    uneven_client: int

    @classmethod
    def of(cls, weights: Sequence[int], most_foreign: int) -> Prices:
        """`weights`: of the tasks to be placed; `most_foreign`: what all of them together read across racks at most."""
        total = sum(weights)
        foreign = NO_COPY * total + 1
        above_foreign = foreign * (most_foreign + 1)
        all_alike = all(weight == 1 for weight in weights)
        weight = 0 if all_alike else above_foreign
        move = above_foreign if all_alike else above_foreign * (total + 2)
        uneven_class = move * (len(weights) + 2)
        return cls(foreign, weight, move, uneven_class, uneven_class * 4 * (len(weights) + 2))

    def of_placing(self, moves: bool, weight: int, level: int, foreign: int) -> int:
        """`moves`: whether the task has a home that it would be away from."""
        return (self.move + self.weight * weight if moves else 0) + self.foreign * foreign + level * weight
