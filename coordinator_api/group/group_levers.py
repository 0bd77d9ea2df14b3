"""Levers are settings of a group that Kafka does not have. Each lever is stored with the caller, the time and the
reason of its last change.

All levers are off by default, and a group without levers behaves like a group in Kafka. Levers are durable: a restart
of the coordinator does not change them. The docstring of `administration` names the files that contain the rules of
each lever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from assignor.task_assignors.steering import NO_STEERING, Steering
from assignor.types import ProcessId


class LeverName(StrEnum):
    """The name of a lever. Records contain the value of this enum."""

    HOLD = "hold"
    REJOIN_GRACE = "rejoin-grace"
    PROMOTION = "promotion"
    PAUSE = "pause"
    DRAIN = "drain"


@dataclass(frozen=True, slots=True)
class OperatorDecision:
    """A decision of an operator, with its caller, time and reason. `by`: the caller, as the service knows it; None for
    a decision that no caller made.
    """

    by: str | None
    at_ms: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Lever:
    """A lever, and the last decision to set the lever or to switch it off.

    `value_ms`: the duration of a hold or a rejoin grace; 0 for other levers. At the end of the hold, the held rebalance
    is carried out. During the rejoin grace, the tasks of a departed member are reserved. `process_id` (as text),
    `member_id`: the process or member that a drain empties. If `member_id` is None, the drain concerns all members of
    the process.
    """

    name: LeverName
    decision: OperatorDecision
    value_ms: int = 0
    process_id: str = ""
    member_id: str | None = None

    @property
    def target(self) -> str:
        """The drained member or process, as the key of `Levers.drained`."""
        return self.member_id or self.process_id


@dataclass(frozen=True, slots=True)
class Levers:
    """The levers that are set. A lever is off if it is None or empty.

    `promotion`: the next probing rebalance starts when the warm-ups have caught up, not at the probing deadline.
    `pause`: while this lever is set, members do not process records. `drained`: for each drained member or process, its
    drain.
    """

    hold: Lever | None = None
    rejoin_grace: Lever | None = None
    promotion: Lever | None = None
    pause: Lever | None = None
    drained: Mapping[str, Lever] = field(default_factory=dict)

    def changed(self, lever: Lever, is_on: bool) -> Levers:
        """Returns a copy in which `lever` is set if `is_on` is True, and is switched off if `is_on` is False. The field
        of a lever has the lever's name with underscores. Drains are in the field `drained`.
        """
        if lever.name is LeverName.DRAIN:
            others = {target: drained for target, drained in self.drained.items() if target != lever.target}
            return replace(self, drained={**others, lever.target: lever} if is_on else others)
        changed: dict[str, Any] = {lever.name.replace("-", "_"): lever if is_on else None}
        return replace(self, **changed)

    def all_set(self) -> tuple[Lever, ...]:
        """Returns the levers that are set, in the order of the fields."""
        single = (self.hold, self.rejoin_grace, self.promotion, self.pause)
        return (*(lever for lever in single if lever is not None), *self.drained.values())

    @property
    def steering(self) -> Steering:
        """The constraints that the drains impose on every rebalance."""
        if not self.drained:
            return NO_STEERING
        drained = self.drained.values()
        return Steering(
            frozenset(ProcessId.parse(each.process_id) for each in drained if each.member_id is None),
            frozenset(each.member_id for each in drained if each.member_id is not None),
        )


NO_LEVERS = Levers()
