"""What a coordinator answers to a call, or that no answer comes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coordinator_api.group.outcome import JoinAnswered, Response
from coordinator_api.lease.decisions import Elsewhere


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The connection broke, or the service is overloaded, or could not store it. `retry_after_ms`: it asked for."""

    retry_after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Joined:
    """What the service makes of the group's answer to a join: it says besides whether the group is paused."""

    answer: JoinAnswered
    paused: bool


Answer = Response | NoAnswer | Joined | Elsewhere
Reply = Callable[[Answer], None]


def nobody_asked(_answer: Answer) -> None:
    pass
