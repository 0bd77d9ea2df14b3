"""What is told of everything that a coordinator decides, so that rules can be checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from coordinator_api.group.outcome import Outcome

if TYPE_CHECKING:
    from tests.simulation.coordinated_group import CoordinatedGroup


class Observer(Protocol):
    def restarted(self, group: CoordinatedGroup) -> None:
        """It was read from the database."""

    def answered(self, group: CoordinatedGroup) -> None:
        """Its coordinator gives an answer for it."""

    def handed_over(self, group_id: str) -> None:
        """Its owner has given it to another coordinator."""

    def decided(self, group: CoordinatedGroup, outcomes: Sequence[Outcome]) -> None:
        """Events were taken in memory; nothing is committed yet."""

    def fetched(self, group: CoordinatedGroup, member_id: str, generation_id: int) -> None:
        """A member's fetch is answered with its assignment; the answer may get lost."""

    def committed(self, group: CoordinatedGroup) -> None:
        """Its image is another one now."""
