"""What was met: how often each kind of fault took effect, and in which states of the groups and of its members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from coordinator_api.group.image import GroupImage
from coordinator_api.group.states import GroupState
from streams_runtime.membership.member_state import Phase
from tests.simulation.faults import Kind

STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "held", "drained", "paused", "away")
SHORT_STATES = ("empty", "preparing", "completing", "stable", "held", "drained", "paused", "away")
PHASES = tuple(phase.value for phase in Phase if phase not in (Phase.NEW, Phase.ENDED))


class Coverage:
    """`faults`: by kind. `pairs`: by kind and state. Counts of many seeds can be added up."""

    def __init__(self) -> None:
        self.faults: Counter[str] = Counter()
        self.pairs: Counter[tuple[str, str]] = Counter()

    def met(self, kind: Kind, images: Iterable[GroupImage], phases: Iterable[Phase]) -> None:
        """A fault took effect. `images`: of the groups that it concerns; `phases`: of the members."""
        name = kind.name
        self.faults[name] += 1
        for state in {state for image in images for state in states_of(image)} | {phase.value for phase in phases}:
            self.pairs[name, state] += 1

    def add(self, other: Coverage) -> None:
        self.faults += other.faults
        self.pairs += other.pairs

    @property
    def never(self) -> list[Kind]:
        """Kinds that were not met."""
        return [kind for kind in Kind if not self.faults[kind.name]]

    def table(self) -> str:
        """A line for each kind: how often it took effect, and how often in each state."""
        columns = [*zip(STATES, SHORT_STATES, strict=True), *((phase, phase) for phase in PHASES)]
        width = max(len(kind.words) for kind in Kind)
        head = " " * (width + 9) + "".join(f"{short[:9]:>10}" for _, short in columns)
        lines = [head]
        for kind in Kind:
            counts = "".join(f"{self.pairs[kind.name, state] or '-':>10}" for state, _ in columns)
            lines.append(f"{kind.words:<{width}} {self.faults[kind.name]:>8}{counts}")
        return "\n".join(lines)


def states_of(image: GroupImage) -> list[str]:
    states = [str(image.state)] if image.state is not GroupState.DEAD else []
    if image.held is not None:
        states.append("held")
    if image.levers.drained:
        states.append("drained")
    if image.levers.pause is not None:
        states.append("paused")
    if image.members.away():
        states.append("away")
    return states
