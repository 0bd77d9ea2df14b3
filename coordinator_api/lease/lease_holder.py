"""What the holder of a lease does about the rows after each poll, and what it knows of where groups are. Pure.

Rules:
- Polls go one at a time. The actions that follow a poll are carried out, or given up, before the next poll is sent.
- A group is owned here only after a take that succeeded. A group that the rows give to this coordinator and that is
  not owned here is taken once more: another coordinator handed it over, or the answer to an earlier take was lost. The
  epoch rises by that, so an older request that is still on its way finds another epoch and does nothing.
- A coordinator closes a group before it hands the group over. The rows show whether the hand-over succeeded.
- What this coordinator did since its last poll may be newer than the next view, so it overrides one more view.
- A renewal that is answered too late does not let this coordinator answer, but keeps others from its groups. So the
  next polls do not renew the row until one of them is answered in time, or several in a row if that happens repeatedly.
  A coordinator that the database always answers too late thereby loses its groups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import ceil, inf
from typing import TypeVar

from coordinator_api.lease.decisions import (
    Action,
    Elsewhere,
    EndCoordinator,
    Free,
    HandOver,
    Here,
    Lose,
    NoSuchGroup,
    ReadAgain,
    Take,
    Whereabouts,
    hand_over_of,
    hand_overs_of_all,
    takes_of,
)
from coordinator_api.store.lease_rows import GroupOwner, LeaseTimes, LeaseView

MARGIN = 1.05
"""How much longer others observe a row than its coordinator may answer: two clocks differ a little in speed."""

MOST_INTERVALS_COUNTED = 2
"""Of a gap between two polls."""

SILENT_AFTER_INTERVALS = 3

WAITS_AT_MOST_INTERVALS = 2
"""A group that is free for longer is taken by any coordinator, whatever the plan says."""

RETRIES_A_POLL = 4
"""How much sooner a poll that failed is sent again than one that succeeded."""

MOST_POLLS_BEFORE_RENEWAL = 4
"""So many answers in a row have to come in time, at most, before the row is renewed again."""

FORGIVEN_AFTER_POLLS = 8
"""After so many answers in a row that came in time, late ones before them no longer count."""


class Expiry:
    """Until when this coordinator may answer for its groups. Call `may_answer` when an answer is computed, not before.

    It counts from the moment at which a renewal was sent: the database made it later, and others read it later still.
    """

    def __init__(self, times: LeaseTimes) -> None:
        self._valid_ms = times.valid_ms
        self._until_ms: float | None = None
        self._has_lapsed = False

    def polled(self, sent_ms: float, now_ms: float) -> bool:
        """A renewal succeeded, and its answer arrived now. Whether it gives back a lease that had expired meanwhile."""
        if self._until_ms is not None and now_ms >= self._until_ms:
            self._has_lapsed = True
        self._until_ms = max(self._until_ms or 0.0, sent_ms + self._valid_ms)
        if not self._has_lapsed or now_ms >= self._until_ms:
            return False  # an answer that came too late gives nothing back
        self._has_lapsed = False
        return True

    def may_answer(self, now_ms: float) -> bool:
        return self._until_ms is not None and now_ms < self._until_ms


class ObservedLeases:
    """Which of the other coordinators have expired: their rows have not changed while this one observed them for long
    enough. And which groups wait too long for the coordinator that was to take them.

    Time is counted on this coordinator's own clock, from poll to poll.
    """

    def __init__(self, times: LeaseTimes) -> None:
        self._renewal_ms = times.renewal_ms
        self._enough_ms = times.valid_ms * MARGIN
        self._unchanged_ms: dict[EndCoordinator, float] = {}
        self._free_ms: dict[str, float] = {}
        self._read_ms: float | None = None

    def seen(self, view: LeaseView, me: str, now_ms: float) -> None:
        """The answer to a poll arrived now."""
        others = [EndCoordinator(each, row.renewals) for each, row in view.coordinators.items() if each != me]
        free = [group.group_id for group in view.groups.values() if view.is_free(group)]
        # a longer gap was an outage, in which renewals of others could not be observed
        longest_ms = MOST_INTERVALS_COUNTED * self._renewal_ms
        gap_ms = 0.0 if self._read_ms is None else min(now_ms - self._read_ms, longest_ms)
        self._unchanged_ms = _counted_on(self._unchanged_ms, others, gap_ms)
        self._free_ms = _counted_on(self._free_ms, free, gap_ms)
        self._read_ms = now_ms

    def expired(self) -> list[EndCoordinator]:
        """As of the newest poll. A coordinator whose row is still there at the next poll is named again."""
        return [row for row, unchanged_ms in self._unchanged_ms.items() if unchanged_ms >= self._enough_ms]

    def silent(self) -> frozenset[str]:
        """Coordinators that have missed a few renewals: they may serve late what is handed to them."""
        longest_ms = SILENT_AFTER_INTERVALS * self._renewal_ms
        rows = self._unchanged_ms.items()
        return frozenset(row.coordinator_id for row, unchanged_ms in rows if unchanged_ms > longest_ms)

    def waiting_too_long(self) -> frozenset[str]:
        """Groups that have been free for a few intervals, because the coordinator that was to take them does not."""
        longest_ms = WAITS_AT_MOST_INTERVALS * self._renewal_ms
        return frozenset(each for each, free_ms in self._free_ms.items() if free_ms >= longest_ms)

    def next_due_ms(self) -> float:
        """When a further poll might show that another coordinator has expired; infinite without other coordinators."""
        left_ms = [left for row_ms in self._unchanged_ms.values() if (left := self._enough_ms - row_ms) > 0]
        return (self._read_ms or 0.0) + min(left_ms, default=inf)


Observed = TypeVar("Observed")


def _counted_on(
    before_ms: Mapping[Observed, float], present: Iterable[Observed], gap_ms: float
) -> dict[Observed, float]:
    """How long each that is present has been there: it was there `before_ms` already, or begins now."""
    return {each: before_ms[each] + gap_ms if each in before_ms else 0.0 for each in present}


class LeaseHolder:
    """All times are milliseconds of one clock that never goes back. `coordinator_id`: None without a row."""

    def __init__(self, times: LeaseTimes) -> None:
        self.coordinator_id: str | None = None
        self._url = ""
        self._times = times
        self._late_renewals = self._timely = 0
        self._restart(0.0)

    def entered(self, coordinator_id: str, url: str, now_ms: float) -> None:
        """The row has just been made. This coordinator owns nothing, and may not answer before its first poll."""
        self.coordinator_id, self._url = coordinator_id, url
        self._restart(now_ms)

    @property
    def renews(self) -> bool:
        """Whether the next poll is to renew the row."""
        return self._timely >= self._polls_before_renewal

    def poll_failed(self) -> None:
        """A poll failed, or was not answered."""
        self._answered(in_time=False)

    def next_poll_ms(self, now_ms: float) -> float:
        """When the next poll is to be sent; never before now. Sooner after one that failed, and when it may show that
        another coordinator has expired.
        """
        if now_ms <= self._poll_due_ms:
            return self._poll_due_ms
        retry_ms = self._times.renewal_ms / RETRIES_A_POLL
        return max(now_ms, self._poll_due_ms + ceil((now_ms - self._poll_due_ms) / retry_ms) * retry_ms)

    def polled(
        self, sent_ms: float, now_ms: float, view: LeaseView | None, movable: Collection[str] = ()
    ) -> list[Action]:
        """A poll succeeded that was sent then, and its answer has arrived now.

        `view`: None when the row is gone, and all groups with it; then enter under another id. `movable`: own groups at
        rest, of which at most one is handed over for balance. Returns the actions in the order to carry them out.
        """
        me = self.coordinator_id
        if me is None or view is None or me not in view.coordinators:
            return self._removed(now_ms)
        has_renewed = self.renews
        self._answered(in_time=now_ms - sent_ms < self._times.valid_ms)
        has_regained = has_renewed and self._expiry.polled(sent_ms, now_ms)
        self._observed.seen(view, me, now_ms)
        ordinary_ms = self._after_poll_ms(sent_ms, now_ms, has_renewed=has_renewed)
        self._poll_due_ms = min(ordinary_ms, self._observed.next_due_ms())
        expired = self._observed.expired()
        self._learn(view, expired)
        actions: list[Action] = [*self._losses(me)]
        if has_regained and self._owned:
            actions.append(ReadAgain())
        if self._expiry.may_answer(now_ms) and not self._is_leaving:
            actions += expired
            actions += self._moves(me, movable, is_calm=not expired)
        return actions

    @property
    def owned(self) -> Mapping[str, int]:
        """The groups that this coordinator owns and has open, or is opening, each with the epoch that writes name."""
        return self._owned

    @property
    def groups(self) -> Mapping[str, GroupOwner]:
        """All groups of the database, as far as is known."""
        return self._groups

    def may_answer(self, now_ms: float) -> bool:
        """Whether an answer that is computed now may be given, for any group that is here."""
        return self._expiry.may_answer(now_ms)

    def has_changed(self, group_id: str) -> bool:
        """Whether this coordinator took, gave, created or deleted the group after the newest poll."""
        return group_id in self._done_since

    def whereabouts(self, group_id: str) -> Whereabouts:
        """As far as is known. That a group is here says nothing about the lease."""
        if group_id in self._owned:
            return Here(self._owned[group_id])
        group = self._groups.get(group_id)
        if group is None:
            return NoSuchGroup()
        owner = None if group.owner is None else self._known.coordinators.get(group.owner)
        if owner is None or owner.url == self._url:  # that one's process has ended, and this one has its address
            return Free()
        return Elsewhere(owner.url)

    # --- actions that were carried out

    def own(self, group_id: str, epoch: int) -> None:
        """A take succeeded, or this coordinator declared a new group: the group is in this epoch.

        A failed take needs no call: the next view shows it.
        """
        self._owned[group_id] = epoch
        self._note(group_id, GroupOwner(group_id, self.coordinator_id, epoch, self._members(group_id)))

    def given(self, hand_over: HandOver) -> None:
        """The hand-over succeeded."""
        group_id = hand_over.group_id
        self._owned.pop(group_id, None)
        self._note(group_id, GroupOwner(group_id, hand_over.to, hand_over.epoch + 1, self._members(group_id)))

    def deleted(self, group_id: str) -> None:
        self._owned.pop(group_id, None)
        self._note(group_id, None)

    def leaving(self) -> list[HandOver]:
        """For a stop in good order: where all groups go that are open here. From now on this coordinator takes nothing,
        and none of them is here.

        Empty when no other coordinator can take them. Groups that were not handed over are free when this coordinator
        has left: close them before.
        """
        self._is_leaving = True
        opened = dict(self._owned)
        self._owned.clear()
        if self.coordinator_id is None:
            return []
        moves = hand_overs_of_all(self._known, self.coordinator_id, self._observed.silent())
        return [move for move in moves if opened.get(move.group_id) == move.epoch]

    # --- the parts

    def _restart(self, now_ms: float) -> None:
        self._expiry = Expiry(self._times)
        self._observed = ObservedLeases(self._times)
        self._poll_due_ms = now_ms
        self._groups: dict[str, GroupOwner] = {}
        self._known = LeaseView({}, self._groups)
        self._owned: dict[str, int] = {}
        self._done_since: dict[str, GroupOwner | None] = {}
        self._is_leaving = False

    @property
    def _polls_before_renewal(self) -> int:
        """How many answers in a row have to come in time before the row is renewed."""
        return min(MOST_POLLS_BEFORE_RENEWAL, (1 << self._late_renewals) // 2)

    def _answered(self, *, in_time: bool) -> None:
        if not in_time:
            self._late_renewals = min(self._late_renewals + int(self.renews), MOST_POLLS_BEFORE_RENEWAL)
            self._timely = 0
            return
        self._timely += 1
        if self._timely >= self._polls_before_renewal + FORGIVEN_AFTER_POLLS:
            self._late_renewals = 0

    def _after_poll_ms(self, sent_ms: float, now_ms: float, *, has_renewed: bool) -> float:
        """When the next one is to be sent: at once when it can renew the row again."""
        if has_renewed or self._timely == 0:
            return sent_ms + self._times.renewal_ms
        return now_ms if self.renews else max(now_ms, sent_ms + self._times.renewal_ms / RETRIES_A_POLL)

    def _removed(self, now_ms: float) -> list[Action]:
        lost: list[Action] = [Lose(group_id) for group_id in self._owned]
        self.coordinator_id = None
        self._restart(now_ms)
        return lost

    def _learn(self, view: LeaseView, expired: Collection[EndCoordinator]) -> None:
        """What this coordinator did since its last poll overrides the view."""
        ended = {each.coordinator_id for each in expired}
        coordinators = {key: row for key, row in view.coordinators.items() if key not in ended}
        self._groups = dict(view.groups)
        self._known = LeaseView(coordinators, self._groups)
        done_since, self._done_since = self._done_since, {}
        for group_id, group in done_since.items():
            self._set(group_id, group)

    def _losses(self, me: str) -> list[Lose]:
        ours = {group.group_id: group.epoch for group in self._groups.values() if group.owner == me}
        lost = [group_id for group_id, epoch in self._owned.items() if ours.get(group_id) != epoch]
        for group_id in lost:
            del self._owned[group_id]
        return [Lose(group_id) for group_id in lost]

    def _moves(self, me: str, movable: Collection[str], *, is_calm: bool) -> list[Action]:
        known, silent = self._known, self._observed.silent()
        own = [group for group in self._groups.values() if group.owner == me and group.group_id not in self._owned]
        takes = [Take(group.group_id, me, group.epoch) for group in own]
        takes += takes_of(known, me, silent, self._observed.waiting_too_long())
        if takes or not is_calm or any(known.is_free(group) for group in self._groups.values()):
            return [*takes]
        move = hand_over_of(known, me, self._owned.keys() & movable, silent)
        if move is None:
            return []
        del self._owned[move.group_id]
        return [move]

    def _members(self, group_id: str) -> int:
        known = self._groups.get(group_id)
        return 0 if known is None else known.members

    def _note(self, group_id: str, group: GroupOwner | None) -> None:
        self._done_since[group_id] = group
        self._set(group_id, group)

    def _set(self, group_id: str, group: GroupOwner | None) -> None:
        if group is None:
            self._groups.pop(group_id, None)
        else:
            self._groups[group_id] = group
