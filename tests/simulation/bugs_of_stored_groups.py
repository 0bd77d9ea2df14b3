"""Bugs of what a coordinator stores: what a restart forgets, and what is told or applied too early or never."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from coordinator_api.group.group import Group
from coordinator_api.group.group_levers import LeverName, Levers
from coordinator_api.group.image import GroupImage
from coordinator_api.group.liveness import Liveness
from coordinator_api.group.records import LeverChanged, MemberRestored, MemberSubscribed
from tests.simulation.bug import always, bug

# --- what a restart forgets


def replayed_as(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Each record is read from the store as what `change` makes of it; None: it is not read."""

    def made_of(original: Any) -> Any:
        def wrong(cls: type[Group], group_id: str, limits: Any, records: Iterable[Any], now_ms: int) -> Group:
            read = (change(record) for record in records)
            kept = [record for record in read if record is not None]
            return original.__func__(cls, group_id, limits, kept, now_ms)  # type: ignore[no-any-return]

        return classmethod(wrong)

    return made_of


def is_of(record: Any, name: LeverName) -> bool:
    return isinstance(record, LeverChanged) and record.lever.name is name


def without(name: LeverName) -> Callable[[Any], Any]:
    return lambda record: None if is_of(record, name) else record


def without_join_id(record: Any) -> Any:
    match record:
        case MemberSubscribed(_, join):
            return replace(record, join=replace(join, join_id=None))
        case MemberRestored(member):
            return replace(record, member=replace(member, last_join=replace(member.last_join, join_id=None)))
        case _:
            return record


def no_join_timer(original: Any) -> Any:
    def rearm(self: Liveness, image: GroupImage, now_ms: int) -> None:
        original(self, image, now_ms)
        self.join_timer = None

    return rearm


def short_sessions(original: Any) -> Any:
    def rearm(self: Liveness, image: GroupImage, now_ms: int) -> None:
        original(self, image, now_ms - image.session_timeout_ms() * 9 // 10)

    return rearm


# --- the durable loop


def answered_from_what_is_not_committed(original: Any) -> Any:
    def respond(self: Group, event: Any, now_ms: int, image: GroupImage) -> Any:
        return original(self, event, now_ms, self._image)

    return respond


def apply_no_pause(original: Any) -> Any:
    def apply(self: Group, records: Iterable[Any], now_ms: int) -> None:
        if any(is_of(record, LeverName.PAUSE) for record in records):
            records = [record for record in records if not is_of(record, LeverName.PAUSE)]
        original(self, records, now_ms)

    return apply


BUGS_OF_STORED_GROUPS = (
    # A restarted coordinator no longer knows which instances are drained.
    bug("drain forgotten after a crash", (Group, "replay", replayed_as(without(LeverName.DRAIN)))),
    # A restarted coordinator lets a paused group go on.
    bug("pause forgotten after a crash", (Group, "replay", replayed_as(without(LeverName.PAUSE)))),
    # A restarted coordinator no longer asks before it moves tasks.
    bug("hold forgotten after a crash", (Group, "replay", replayed_as(without(LeverName.HOLD)))),
    # Nothing ends the wait for joins that a restart interrupted.
    bug("timer forgotten after a restart", (Liveness, "rearm", no_join_timer)),
    # After a restart members count as silent since before it.
    bug("sessions shortened by a restart", (Liveness, "rearm", short_sessions)),
    # A first join that is repeated after a restart makes a second member.
    bug("join ids forgotten after a restart", (Group, "replay", replayed_as(without_join_id))),
    # A log that is rewritten loses what operators have set.
    bug("levers left out of the snapshot", (Levers, "all_set", always(()))),
    # Members hear of what a crash may still undo.
    bug("answered before it was committed", (Group, "respond", answered_from_what_is_not_committed)),
    # A pause is stored and answered, and has no effect before the next restart.
    bug("committed and not applied", (Group, "apply", apply_no_pause)),
)
