"""Levers: settings of a group beside Kafka's behaviour, each with who set it, when and why.

All levers are off by default, and a group without any behaves as Kafka's does. They are durable: a restart of the
coordinator changes none of them. The docstring of `administration` names the files of the rules that they switch on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from assignor.task_assignors.steering import NO_STEERING, Steering
from assignor.types import ProcessId


class LeverName(StrEnum):
    """Its value is what is stored."""

    HOLD = "hold"
    REJOIN_GRACE = "rejoin-grace"
    PROMOTION = "promotion"
    PAUSE = "pause"
    DRAIN = "drain"


@dataclass(frozen=True, slots=True)
class OperatorDecision:
    """Who decided, when, and why. `by`: the caller, as the service knows it; None when nobody is known."""

    by: str | None
    at_ms: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Lever:
    """A lever, and the decision to set it or to take it back.

    `value_ms`: the time limit of a hold, after which a computed rebalance is carried out; the time for which a rejoin
    grace keeps the tasks of a member that leaves; 0 for other levers. `process_id` (as text), `member_id`: what a drain
    empties; `member_id` is None for all members of the process.
    """

    name: LeverName
    decision: OperatorDecision
    value_ms: int = 0
    process_id: str = ""
    member_id: str | None = None

    @property
    def target(self) -> str:
        """What is drained, as the key of `Levers.drained`: the member, or the process."""
        return self.member_id or self.process_id


@dataclass(frozen=True, slots=True)
class Levers:
    """The levers that are set; None and empty mean off.

    `promotion`: the next rebalance comes when the warm-ups have caught up, not at the probing deadline. `pause`:
    members process no records. `drained`: by target.
    """

    hold: Lever | None = None
    rejoin_grace: Lever | None = None
    promotion: Lever | None = None
    pause: Lever | None = None
    drained: Mapping[str, Lever] = field(default_factory=dict)

    def changed(self, lever: Lever, is_on: bool) -> Levers:
        """With the lever set, or off. The field of a lever has its name."""
        if lever.name is LeverName.DRAIN:
            others = {target: drained for target, drained in self.drained.items() if target != lever.target}
            return replace(self, drained={**others, lever.target: lever} if is_on else others)
        changed: dict[str, Any] = {lever.name.replace("-", "_"): lever if is_on else None}
        return replace(self, **changed)

    def all_set(self) -> tuple[Lever, ...]:
        """Those that are set, in the order of the fields."""
        single = (self.hold, self.rejoin_grace, self.promotion, self.pause)
        return (*(lever for lever in single if lever is not None), *self.drained.values())

    @property
    def steering(self) -> Steering:
        """What they ask of every rebalance."""
        if not self.drained:
            return NO_STEERING
        drained = self.drained.values()
        return Steering(
            frozenset(ProcessId.parse(each.process_id) for each in drained if each.member_id is None),
            frozenset(each.member_id for each in drained if each.member_id is not None),
        )


NO_LEVERS = Levers()
