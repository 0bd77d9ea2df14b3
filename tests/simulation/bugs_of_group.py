"""Bugs of the coordinator: the state machine of a group, its timers and its levers."""

from dataclasses import replace
from typing import Any

from assignor.task_assignors.steering import NO_STEERING
from coordinator_api.group import heartbeats, joining, rebalancing
from coordinator_api.group.group_levers import Levers
from coordinator_api.group.image import GroupImage
from coordinator_api.group.liveness import Liveness
from coordinator_api.group.records import GroupEmptied
from coordinator_api.group.states import GroupState
from streams_runtime.membership.member_machine import MemberMachine
from streams_runtime.membership.member_state import BEFORE_FIRST_ASSIGNMENT, Outstanding, Phase
from tests.simulation.bug import always, bug

# --- rebalances


def emptied_to_zero(original: Any) -> Any:
    def apply(self: GroupEmptied, image: GroupImage) -> GroupImage:
        after: GroupImage = original(self, image)
        return replace(after, generation_id=0)

    return apply


def any_generation(_: Any) -> Any:
    def is_awaited(image: GroupImage, event: Any) -> bool:
        return image.state is GroupState.COMPLETING_REBALANCE and image.held is None

    return is_awaited


def acknowledges_anything(original: Any) -> Any:
    def note(live: Liveness, working: GroupImage, event: Any, answered: Any, *more: Any) -> None:
        original(live, working, replace(event, generation_id=answered.generation_id), answered, *more)

    return note


def fetches_whatever_there_is(original: Any) -> Any:
    def await_assignment(self: MemberMachine) -> None:
        if not self._news.are_serious() and self._news.assignment_generation > BEFORE_FIRST_ASSIGNMENT:
            self._phase = Phase.AWAITING
            self._fetch()
        else:
            original(self)

    return await_assignment


BUGS_OF_GROUP = (
    # A first join that is repeated with its id is taken for another one.
    bug("retry joins twice", (joining, "_first_join_again", always(None))),
    # The end of an old connection ends members that have a new one.
    bug(
        "broken connection beside a whole one",
        (Liveness, "connection_lost", lambda original: lambda self, lost, _, now_ms: original(self, lost, {}, now_ms)),
    ),
    # What was computed before the last join is handed out all the same.
    bug("result of an older generation stored", (rebalancing, "_is_awaited", any_generation)),
    # Who has rejoined can fetch the assignment from before.
    bug(
        "older assignment handed out",
        # any guard alone is enough: the coordinator hands out nothing before the rebalance has ended, and the member
        # waits until it hears of the generation that it has joined for, and asks for none of before
        (heartbeats, "_awaits_result", always(False)),
        (Outstanding, "fetch", lambda original: lambda self, member_id, _: original(self, member_id, 0)),
        (MemberMachine, "_await_assignment", fetches_whatever_there_is),
    ),
    # A heartbeat of any generation counts as having fetched the newest.
    bug("acknowledgement of an older generation", (heartbeats, "_note_heartbeat", acknowledges_anything)),
    # One join is enough to start the next generation.
    bug(
        "rebalance goes on without all",
        (GroupImage, "all_joined", lambda _: lambda self: self.members.count_joined_after(self.generation_id) > 0),
    ),
    # Tasks that were held back for their old owners stay without one.
    bug(
        "follow-up forgotten",
        (rebalancing, "followup_is_due", always(False)),
        (heartbeats, "followup_is_due", always(False)),
    ),
    # A group that was empty counts its generations from the beginning.
    bug("generations begin again", (GroupEmptied, "apply", emptied_to_zero)),
    # A rebalance that is held is not carried out when its time is over.
    bug("hold without an end", (GroupImage, "held_until_ms", always(None))),
    # Rebalances give tasks to an instance that is drained.
    bug("drain passed over", (Levers, "steering", lambda _: property(lambda self: NO_STEERING))),
)
