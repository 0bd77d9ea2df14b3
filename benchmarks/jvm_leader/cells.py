"""What is compared: assignors, racks, shapes and rebalances. What matters first comes first."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from assignor.pipeline.snapshot import RebalanceSnapshot
from benchmarks.shapes import (
    KAFKAS,
    NO_RACKS,
    SHAPES,
    Placing,
    Shape,
    client_added_rebalance,
    client_removed_rebalance,
    first_rebalance,
    second_rebalance,
)

FALLBACK_PRIOR, LEGACY_STICKY, STICKY = "FallbackPriorTaskAssignor", "LegacyStickyTaskAssignor", "StickyTaskAssignor"
ASSIGNORS = (KAFKAS, STICKY, LEGACY_STICKY, FALLBACK_PRIOR)
MIN_TRAFFIC, BALANCE_SUBTOPOLOGY = "min_traffic", "balance_subtopology"
STRATEGIES = (NO_RACKS, MIN_TRAFFIC, BALANCE_SUBTOPOLOGY)
FIRST, SECOND = "first", "second"
LATER: Mapping[str, Callable[[Shape, Mapping[str, bytes], Placing], RebalanceSnapshot]] = {
    SECOND: second_rebalance,
    "client added": client_added_rebalance,
    "client removed": client_removed_rebalance,
}
"""The rebalances that need what the first one sent."""
REBALANCES = (FIRST, *LATER)


@dataclass(frozen=True, slots=True)
class Cell:
    """One rebalance of one group."""

    placing: Placing
    shape: Shape
    rebalance: str

    @property
    def name(self) -> str:
        return f"{self.placing.assignor}, racks {self.placing.strategy}, {shape_name(self.shape)}, {self.rebalance}"

    @property
    def orders_by_identity(self) -> bool:
        """Whether Kafka gives standbys out in an order that is another one in each run of a JVM."""
        return self.placing.assignor == STICKY and self.shape.standbys > 0

    def snapshot(self, first_assignments: Mapping[str, bytes]) -> RebalanceSnapshot:
        """`first_assignments`: what the first rebalance sent; not looked at for the first one itself."""
        if self.rebalance == FIRST:
            return first_rebalance(self.shape, self.placing)
        return LATER[self.rebalance](self.shape, first_assignments, self.placing)


def shape_name(shape: Shape) -> str:
    """As `--shape` takes it: "5000x50"."""
    return f"{shape.tasks}x{shape.clients}" + (f"x{shape.threads}t" if shape.threads > 8 else "")


SHAPE_NAMES = {shape_name(shape): shape for shape in SHAPES}
QUICK_SHAPES = ("1000x10", "6000x2")
LARGE_TASKS = 10_000


@dataclass(frozen=True, slots=True)
class Choice:
    """Which cells are measured."""

    assignors: Sequence[str] = ASSIGNORS
    strategies: Sequence[str] = STRATEGIES
    shapes: Sequence[str] = tuple(SHAPE_NAMES)
    rebalances: Sequence[str] = REBALANCES

    def cells(self) -> list[Cell]:
        """Small groups before large ones, whose cells take minutes where the JVM takes a minute; without racks before
        with them; then the shapes in the order of their list.
        """
        shapes = [shape for name, shape in SHAPE_NAMES.items() if name in self.shapes]
        return [
            Cell(Placing(assignor, strategy), shape, rebalance)
            for large in (False, True)
            for strategy in self.strategies
            for assignor in self.assignors
            for shape in shapes
            if (shape.tasks >= LARGE_TASKS) == large
            for rebalance in self.rebalances
        ]


QUICK = Choice((KAFKAS,), (NO_RACKS,), QUICK_SHAPES, (FIRST, SECOND))
