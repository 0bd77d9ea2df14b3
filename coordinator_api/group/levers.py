"""What operators have set for a group beside Kafka's behaviour: each lever with who pulled it, when and why.

All levers are off by default, and a group without any behaves as Kafka's does. They are durable: a restart of the
coordinator changes none of them. The rules that they switch on stand in files of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assignor.steering import NO_STEERING, Steering
from assignor.types import ProcessId


@dataclass(frozen=True, slots=True)
class Said:
    """Who pulled a lever, when, and why. `by`: the caller, as the service knows it; None when nobody is known."""

    by: str | None
    at_ms: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """A computed rebalance waits until it is approved or discarded, or for `time_limit_ms`; then it is carried out."""

    time_limit_ms: int
    said: Said


@dataclass(frozen=True, slots=True)
class RejoinGrace:
    """The tasks of a member that leaves wait for `grace_ms` for its process to come back."""

    grace_ms: int
    said: Said


@dataclass(frozen=True, slots=True)
class Drained:
    """An instance, or one of its members, that is to have no tasks. `process_id`: as text. `member_id`: None for all
    members of the process.
    """

    process_id: str
    member_id: str | None
    said: Said

    @property
    def target(self) -> str:
        """What is drained, as the key of `Levers.drained`: the member, or the process."""
        return self.member_id or self.process_id


@dataclass(frozen=True, slots=True)
class Levers:
    """None, False and empty mean off.

    `promotion`: the next rebalance comes when the warm-ups have caught up, not at the probing deadline. `pause`:
    members process no records. `drained`: by target.
    """

    hold: Hold | None = None
    rejoin_grace: RejoinGrace | None = None
    promotion: Said | None = None
    pause: Said | None = None
    drained: Mapping[str, Drained] = field(default_factory=dict)

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
