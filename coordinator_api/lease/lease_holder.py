"""Implements the rules of a lease. Decides on a coordinator's actions after each poll, and knows the owners of groups.
Pure.

Rules:
- Only one poll runs at a time. When the next poll is answered, the coordinator drops the actions of the previous poll
  that have not begun.
- This coordinator owns a group only after it has taken or created the group. If the row of a group names this
  coordinator, but the group is not in `owned`, the coordinator takes the group. Another coordinator may have handed the
  group to this coordinator, or the answer to an earlier take may have been lost. Each take raises the epoch. If an
  older take reaches the database after a newer take, the older take has no effect.
- A coordinator closes a group before it hands the group over. The rows show whether the hand-over succeeded.
- This coordinator's own changes after its last poll override the next view, because they may be newer than the view.
- If the answer to a renewal comes too late, this coordinator may not answer for its groups. However, the renewal keeps
  other coordinators from taking these groups. For this reason, the coordinator stops renewing its row after a late
  answer. The coordinator renews its row again after a poll that is answered in time. After several late answers, up to
  four polls in a row have to be answered in time. If all answers come late, the coordinator loses its groups.
"""

from collections.abc import Collection, Iterable, Mapping
from math import ceil, inf
from typing import TypeVar

from coordinator_api.lease import decisions
from coordinator_api.store.lease_rows import GroupOwner, LeaseTimes, LeaseView

MARGIN = 1.05
"""A lease counts as expired when its row has been unchanged for `valid_ms` times this factor. The factor is above 1
because two clocks differ a little in speed.
"""

MOST_INTERVALS_COUNTED = 2
"""A gap between two polls counts as at most this number of renewal intervals."""

SILENT_AFTER_INTERVALS = 3
"""The number of renewal intervals after which a coordinator with an unchanged row gets no more groups."""

WAITS_AT_MOST_INTERVALS = 2
"""The number of renewal intervals after which any coordinator may take a free group, regardless of the plan.
"""

RETRIES_A_POLL = 4
"""While polls fail, the coordinator sends this number of polls in a renewal interval."""

MOST_POLLS_BEFORE_RENEWAL = 4
"""The largest number of consecutive answers that must arrive in time before the row is renewed again.
"""

FORGIVEN_AFTER_POLLS = 8
"""The number of consecutive timely answers after which earlier late answers are ignored. The number does not include
the answers that are needed before the row is renewed again.
"""


class Expiry:
    """Knows the time until which this coordinator may answer for its groups. Call `may_answer` at the moment when an
    answer is computed.

    The lease is valid for a fixed time from the moment at which a renewal was sent. The validity may begin at the
    moment of sending, because other coordinators can read the renewal only later.
    """

    def __init__(self, times: LeaseTimes) -> None:
        self._valid_ms = times.valid_ms
        self._until_ms: float | None = None
        self._has_lapsed = False

    def polled(self, sent_ms: float, now_ms: float) -> bool:
        """Record the success of a renewal. The renewal was sent at `sent_ms`, and its answer has arrived just now.
        Returns whether the renewal restores a lease that had expired.
        """
        if self._until_ms is not None and now_ms >= self._until_ms:
            self._has_lapsed = True
        self._until_ms = max(self._until_ms or 0.0, sent_ms + self._valid_ms)
        if not self._has_lapsed or now_ms >= self._until_ms:
            return False  # a late answer does not restore the lease
        self._has_lapsed = False
        return True

    def may_answer(self, now_ms: float) -> bool:
        return self._until_ms is not None and now_ms < self._until_ms


class ObservedLeases:
    """Finds the other coordinators with expired leases: their rows were unchanged for too long. `ObservedLeases` also
    finds the groups that have been free for too long.

    Time is measured on this coordinator's own clock, from poll to poll.
    """

    def __init__(self, times: LeaseTimes) -> None:
        self._renewal_ms = times.renewal_ms
        self._enough_ms = times.valid_ms * MARGIN
        self._unchanged_ms: dict[decisions.EndCoordinator, float] = {}
        self._free_ms: dict[str, float] = {}
        self._read_ms: float | None = None

    def seen(self, view: LeaseView, me: str, now_ms: float) -> None:
        """Record the rows of a poll that was answered just now."""
        others = [decisions.EndCoordinator(each, row.renewals) for each, row in view.coordinators.items() if each != me]
        free = [group.group_id for group in view.groups.values() if view.is_free(group)]
        # a longer gap means an outage, during which this coordinator could not observe the renewals of others
        longest_ms = MOST_INTERVALS_COUNTED * self._renewal_ms
        gap_ms = 0.0 if self._read_ms is None else min(now_ms - self._read_ms, longest_ms)
        self._unchanged_ms = _counted_on(self._unchanged_ms, others, gap_ms)
        self._free_ms = _counted_on(self._free_ms, free, gap_ms)
        self._read_ms = now_ms

    def expired(self) -> list[decisions.EndCoordinator]:
        """Returns the coordinators whose leases have expired, according to the newest poll. The result contains an
        expired coordinator until its row is deleted.
        """
        return [row for row, unchanged_ms in self._unchanged_ms.items() if unchanged_ms >= self._enough_ms]

    def silent(self) -> frozenset[str]:
        """Returns the coordinators that have missed a few renewals. If a coordinator misses renewals, it may be slow to
        serve a further group.
        """
        longest_ms = SILENT_AFTER_INTERVALS * self._renewal_ms
        rows = self._unchanged_ms.items()
        return frozenset(row.coordinator_id for row, unchanged_ms in rows if unchanged_ms > longest_ms)

    def waiting_too_long(self) -> frozenset[str]:
        """Returns the groups that have been free for a few renewal intervals, because no coordinator has taken them."""
        longest_ms = WAITS_AT_MOST_INTERVALS * self._renewal_ms
        return frozenset(each for each, free_ms in self._free_ms.items() if free_ms >= longest_ms)

    def next_due_ms(self) -> float:
        """Returns the earliest time at which a poll may show that a further lease of another coordinator has expired.
        The time is infinite if no lease of another coordinator can expire.
        """
        left_ms = [left for row_ms in self._unchanged_ms.values() if (left := self._enough_ms - row_ms) > 0]
        return (self._read_ms or 0.0) + min(left_ms, default=inf)


Observed = TypeVar("Observed")


def _counted_on(
    before_ms: Mapping[Observed, float], present: Iterable[Observed], gap_ms: float
) -> dict[Observed, float]:
    """Returns for each item of `present` how long it has existed. The time of a known item is its value in `before_ms`
    plus `gap_ms`. The time of a new item is 0.
    """
    return {each: before_ms[each] + gap_ms if each in before_ms else 0.0 for each in present}


class LeaseHolder:
    """Decides on the actions after each poll, and knows the owners of groups.

    All times of `LeaseHolder` are milliseconds of one clock that never goes back. `coordinator_id`: the id of this
    coordinator; None if it has no row.
    """

    def __init__(self, times: LeaseTimes) -> None:
        self.coordinator_id: str | None = None
        self._url = ""
        self._times = times
        self._late_renewals = self._timely = 0
        self._restart(0.0)

    def entered(self, coordinator_id: str, url: str, now_ms: float) -> None:
        """Record that this coordinator's row was inserted. The coordinator owns no groups yet, and may not answer
        before its first poll.
        """
        self.coordinator_id, self._url = coordinator_id, url
        self._restart(now_ms)

    @property
    def renews(self) -> bool:
        """True if the next poll renews this coordinator's row."""
        return self._timely >= self._polls_before_renewal

    def poll_failed(self) -> None:
        """Record that a poll failed or was not answered."""
        self._answered(in_time=False)

    def next_poll_ms(self, now_ms: float) -> float:
        """Returns the time at which to send the next poll, which is never in the past. The next poll comes early after
        a failed poll. The next poll also comes early when the lease of another coordinator may have expired.
        """
        if now_ms <= self._poll_due_ms:
            return self._poll_due_ms
        retry_ms = self._times.renewal_ms / RETRIES_A_POLL
        return max(now_ms, self._poll_due_ms + ceil((now_ms - self._poll_due_ms) / retry_ms) * retry_ms)

    def polled(
        self, sent_ms: float, now_ms: float, view: LeaseView | None, movable: Collection[str] = ()
    ) -> list[decisions.Action]:
        """Record the success of a poll. The poll was sent at `sent_ms`, and its answer has arrived just now.

        `view`: the rows that the poll found; None if this coordinator's row was deleted. A coordinator without a row
        has lost all groups. The coordinator has to insert a row under another id. `movable`: the groups of this
        coordinator that may be handed over now. At most one of these groups is handed over for balance. Returns the
        actions in the order in which to carry them out.
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
        actions: list[decisions.Action] = [*self._losses(me)]
        if has_regained and self._owned:
            actions.append(decisions.ReadAgain())
        if self._expiry.may_answer(now_ms) and not self._is_leaving:
            actions += expired
            actions += self._moves(me, movable, is_calm=not expired)
        return actions

    @property
    def owned(self) -> Mapping[str, int]:
        """The groups that this coordinator owns and has opened or is opening. Maps each group to its epoch. Each write
        of a group names this epoch.
        """
        return self._owned

    @property
    def groups(self) -> Mapping[str, GroupOwner]:
        """All groups of the database by id, according to the newest poll and to later changes by this coordinator."""
        return self._groups

    def may_answer(self, now_ms: float) -> bool:
        """Returns whether this coordinator may now give answers for its groups."""
        return self._expiry.may_answer(now_ms)

    def has_changed(self, group_id: str) -> bool:
        """Returns whether this coordinator took, handed over, created or deleted the group after the newest poll."""
        return group_id in self._done_since

    def whereabouts(self, group_id: str) -> decisions.Whereabouts:
        """Returns the owner of a group, according to the newest poll and to later changes by this coordinator. The
        result may be `Here` even if the lease has expired.
        """
        if group_id in self._owned:
            return decisions.Here(self._owned[group_id])
        group = self._groups.get(group_id)
        if group is None:
            return decisions.NoSuchGroup()
        owner = None if group.owner is None else self._known.coordinators.get(group.owner)
        # a row with this coordinator's address was inserted by an earlier process, which has ended
        if owner is None or owner.url == self._url:
            return decisions.Free()
        return decisions.Elsewhere(owner.url)

    # --- actions that were carried out

    def own(self, group_id: str, epoch: int) -> None:
        """Record that this coordinator has taken or created the group, and owns the group in this epoch."""
        self._owned[group_id] = epoch
        self._note(group_id, GroupOwner(group_id, self.coordinator_id, epoch, self._members(group_id)))

    def given(self, hand_over: decisions.HandOver) -> None:
        """Record that a hand-over succeeded."""
        group_id = hand_over.group_id
        self._owned.pop(group_id, None)
        self._note(group_id, GroupOwner(group_id, hand_over.to, hand_over.epoch + 1, self._members(group_id)))

    def deleted(self, group_id: str) -> None:
        self._owned.pop(group_id, None)
        self._note(group_id, None)

    def leaving(self) -> list[decisions.HandOver]:
        """Returns the hand-overs of all groups of this coordinator, for a clean stop. From now on, this coordinator
        owns no groups and takes no groups.

        The list is empty when no other coordinator can take groups. The caller has to close the groups that are not
        handed over. If a group is not handed over, it becomes free when this coordinator leaves.
        """
        self._is_leaving = True
        opened = dict(self._owned)
        self._owned.clear()
        if self.coordinator_id is None:
            return []
        moves = decisions.hand_overs_of_all(self._known, self.coordinator_id, self._observed.silent())
        return [move for move in moves if opened.get(move.group_id) == move.epoch]

    # --- internals

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
        """The number of consecutive answers that must arrive in time before a poll renews the row."""
        # After the first late renewal, one poll must be answered in time. Each further late renewal doubles this
        # number.
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
        """Returns the time of the next ordinary poll. The poll is due now if enough answers have arrived in time and
        the next poll may renew the row again.
        """
        if has_renewed or self._timely == 0:
            return sent_ms + self._times.renewal_ms
        return now_ms if self.renews else max(now_ms, sent_ms + self._times.renewal_ms / RETRIES_A_POLL)

    def _removed(self, now_ms: float) -> list[decisions.Action]:
        lost: list[decisions.Action] = [decisions.Lose(group_id) for group_id in self._owned]
        self.coordinator_id = None
        self._restart(now_ms)
        return lost

    def _learn(self, view: LeaseView, expired: Collection[decisions.EndCoordinator]) -> None:
        """Copy the rows of the view. Then apply the changes that this coordinator made after its last poll, because
        they may be newer than the view.
        """
        ended = {each.coordinator_id for each in expired}
        coordinators = {key: row for key, row in view.coordinators.items() if key not in ended}
        self._groups = dict(view.groups)
        self._known = LeaseView(coordinators, self._groups)
        done_since, self._done_since = self._done_since, {}
        for group_id, group in done_since.items():
            self._set(group_id, group)

    def _losses(self, me: str) -> list[decisions.Lose]:
        ours = {group.group_id: group.epoch for group in self._groups.values() if group.owner == me}
        lost = [group_id for group_id, epoch in self._owned.items() if ours.get(group_id) != epoch]
        for group_id in lost:
            del self._owned[group_id]
        return [decisions.Lose(group_id) for group_id in lost]

    def _moves(self, me: str, movable: Collection[str], *, is_calm: bool) -> list[decisions.Action]:
        known, silent = self._known, self._observed.silent()
        own = [group for group in self._groups.values() if group.owner == me and group.group_id not in self._owned]
        takes = [decisions.Take(group.group_id, me, group.epoch) for group in own]
        takes += decisions.takes_of(known, me, silent, self._observed.waiting_too_long())
        if takes or not is_calm or any(known.is_free(group) for group in self._groups.values()):
            return [*takes]
        move = decisions.hand_over_of(known, me, self._owned.keys() & movable, silent)
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
