"""What a member has heard and not yet acted on."""

from __future__ import annotations

from dataclasses import dataclass

from streams_runtime.membership.calls import HeartbeatNews
from streams_runtime.membership.coordinator_errors import CoordinatorError, RebalanceInProgress
from streams_runtime.membership.member_standing import BEFORE_FIRST_ASSIGNMENT

_NEVER = -1


@dataclass(slots=True)
class PendingNews:
    """`refused`: how the group refused a heartbeat. `stop`: the coordinator wants the member to end. `lost`: why the
    holder has dropped its tasks by itself. `rejoin_asked`: by the holder, or by a refusal. `rejoin_generation`: the
    latest generation of the group under which the member was told to rejoin. `assignment_generation`: of the latest
    assignment that it can fetch.
    """

    refused: CoordinatorError | None = None
    stop: bool = False
    lost: str | None = None
    rejoin_asked: bool = False
    rejoin_generation: int = _NEVER
    assignment_generation: int = BEFORE_FIRST_ASSIGNMENT

    def hears(self, news: HeartbeatNews, generation_id: int) -> None:
        """`generation_id`: of the group, when it said so."""
        self.stop = self.stop or news.stop
        self.assignment_generation = max(self.assignment_generation, news.assignment_generation)
        if news.rejoin:
            self.rejoin_generation = max(self.rejoin_generation, generation_id)

    def hears_refusal(self, error: CoordinatorError) -> None:
        """Only one that counts."""
        if isinstance(error, RebalanceInProgress):
            self.rejoin_asked = True
        else:
            self.refused = error

    def are_serious(self) -> bool:
        """The member must not go on with what it is doing, a rebalance included."""
        return self.refused is not None or self.stop or self.lost is not None

    def call_for_action(self, awaited: int) -> bool:
        """A join that has reached the generation `awaited` answers every "rejoin" of an earlier one."""
        return self.are_serious() or self.rejoin_asked or self.rejoin_generation >= awaited

    def forget_member(self) -> None:
        """What the group said about its generations was said to another member."""
        self.rejoin_generation = _NEVER
        self.assignment_generation = BEFORE_FIRST_ASSIGNMENT
