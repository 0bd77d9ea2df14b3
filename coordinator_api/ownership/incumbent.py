"""What a coordinator does about the rows after each of its beats, and what it knows of where groups are.

Rules:
- Beats go one at a time. The actions that follow a beat are carried out, or given up, before the next beat is sent.
- A group is open here only after a take that succeeded. What the rows say is this coordinator's and is not open, it
  takes once more: what another has handed over, and whatever it once asked for without hearing the answer. The epoch
  rises by that, so an older request that is still on its way finds another epoch and does nothing.
- Who hands a group over has closed it before. Whether the hand-over succeeded, failed or got lost, the rows tell.
- What this coordinator did since its last beat may be newer than the next view. It holds for one view more.
- A renewal whose answer does not come in time gives this coordinator nothing, and keeps its groups from the others. The
  next beats only look, until one is answered in time, or several in a row if that happens again and again. So whom the
  database answers too late loses its groups.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import ceil

from coordinator_api.ownership import spreading
from coordinator_api.ownership.lease import Lease
from coordinator_api.ownership.observation import Observation
from coordinator_api.ownership.values import (
    Action,
    CoordinatorRow,
    Elsewhere,
    EndCoordinator,
    Enter,
    Free,
    GroupOwner,
    HandOver,
    Here,
    LeaseTimes,
    Lose,
    NoSuchGroup,
    OwnershipView,
    ReadAgain,
    Take,
    Whereabouts,
)

RETRIES_A_BEAT = 4
"""How much sooner a beat that failed is sent again than one that succeeded."""

MOST_LOOKS = 4
"""So many answers in a row have to come in time, at most, before the row is renewed again."""

WELL_AFTER_RENEWALS = 8
"""So many in a row that were answered in time, and those before that were not are forgotten."""


class Incumbent:
    """All times are milliseconds of one clock that never goes back. `coordinator_id`: None without a row."""

    def __init__(self, times: LeaseTimes) -> None:
        self.coordinator_id: str | None = None
        self.url = ""
        self._times = times
        self._in_vain = self._timely = 0
        self._begin_anew(0.0)

    def entered(self, coordinator_id: str, url: str, now_ms: float) -> None:
        """Its row has just been made. It owns nothing, and may not answer before its first beat."""
        self.coordinator_id, self.url = coordinator_id, url
        self._begin_anew(now_ms)

    @property
    def renews(self) -> bool:
        """Whether the next beat is to renew the row."""
        return self._timely >= self._looks

    def not_beaten(self) -> None:
        """A beat failed, or nothing was heard of it."""
        self._answered(in_time=False)

    def next_beat_ms(self, now_ms: float) -> float:
        """When the next beat is to be sent; never before now. Sooner after one that failed, and when it may show that
        another coordinator is over.
        """
        if now_ms <= self._beat_due_ms:
            return self._beat_due_ms
        retry_ms = self._times.beat_ms / RETRIES_A_BEAT
        return max(now_ms, self._beat_due_ms + ceil((now_ms - self._beat_due_ms) / retry_ms) * retry_ms)

    def beaten(self, sent_ms: float, now_ms: float, view: OwnershipView | None) -> list[Action]:
        """A beat succeeded that was sent then, and its answer has arrived now. None: the row is gone.

        Gives the actions in the order in which to carry them out.
        """
        me = self.coordinator_id
        if me is None or view is None or me not in view.coordinators:
            return self._removed(now_ms)
        has_renewed = self.renews
        self._answered(in_time=now_ms - sent_ms < self._times.valid_ms)
        has_regained = has_renewed and self._lease.beaten(sent_ms, now_ms)
        self._observation.seen(view, me, now_ms)
        self._beat_due_ms = self._after_beat_ms(sent_ms, now_ms, has_renewed=has_renewed)
        due_ms = self._observation.next_due_ms()
        if due_ms is not None:
            self._beat_due_ms = min(self._beat_due_ms, due_ms)
        over = self._observation.over()
        self._learn(view, over)
        actions: list[Action] = [*self._losses(me)]
        if has_regained and self._open:
            actions.append(ReadAgain())
        if self._lease.may_answer(now_ms) and not self._is_leaving:
            actions += over
            actions += self._moves(me, is_calm=not over)
        return actions

    def may_answer(self, now_ms: float) -> bool:
        """Whether an answer that is computed now may be given, for any group that is here."""
        return self._lease.may_answer(now_ms)

    def whereabouts(self, group_id: str) -> Whereabouts:
        """As far as is known. That a group is here says nothing about the lease."""
        if group_id in self._open:
            return Here(self._open[group_id])
        group = self._groups.get(group_id)
        if group is None:
            return NoSuchGroup()
        if group.owner is None or group.owner == self.coordinator_id or group.owner not in self._coordinators:
            return Free()
        return Elsewhere(self._coordinators[group.owner].url)

    # --- what was done about it

    def taken(self, take: Take) -> None:
        """It succeeded. One that failed needs nothing: the next view tells."""
        self._opened(take.group_id, take.epoch + 1)

    def given(self, hand_over: HandOver) -> None:
        """It succeeded."""
        group_id = hand_over.group_id
        self._open.pop(group_id, None)
        self._note(group_id, GroupOwner(group_id, hand_over.to, hand_over.epoch + 1, self._members(group_id)))

    def created(self, group_id: str) -> None:
        """This coordinator has declared a new group, and owns it."""
        self._opened(group_id, 1)

    def deleted(self, group_id: str) -> None:
        self._open.pop(group_id, None)
        self._note(group_id, None)

    def movable(self, group_ids: Collection[str]) -> None:
        """What may be handed over for balance from now on: own groups at rest. At most one moves in a beat."""
        self._movable_ids = frozenset(group_ids)

    def leaving(self) -> list[HandOver]:
        """For a stop in good order: where all groups go that are open here. From now on it takes nothing, and none of
        them is here.

        Empty when nobody else can have them. What was not handed over is free when this coordinator has left: it is to
        be closed before. That is so, too, for what the rows say is this coordinator's and it never heard that it has.
        """
        self._is_leaving = True
        opened = dict(self._open)
        self._open.clear()
        if self.coordinator_id is None:
            return []
        moves = spreading.leaving(self._known(), self.coordinator_id, self._observation.silent())
        return [move for move in moves if opened.get(move.group_id) == move.epoch]

    # --- the parts

    def _begin_anew(self, now_ms: float) -> None:
        self._lease = Lease(self._times)
        self._observation = Observation(self._times)
        self._beat_due_ms = now_ms
        self._coordinators: Mapping[str, CoordinatorRow] = {}
        self._groups: dict[str, GroupOwner] = {}
        self._open: dict[str, int] = {}
        self._done_since: dict[str, GroupOwner | None] = {}
        self._movable_ids = frozenset[str]()
        self._is_leaving = False

    @property
    def _looks(self) -> int:
        """How many answers in a row have to come in time before the row is renewed."""
        return min(MOST_LOOKS, (1 << self._in_vain) // 2)

    def _answered(self, *, in_time: bool) -> None:
        if not in_time:
            self._in_vain, self._timely = min(self._in_vain + int(self.renews), MOST_LOOKS), 0
            return
        self._timely += 1
        if self._timely >= self._looks + WELL_AFTER_RENEWALS:
            self._in_vain = 0

    def _after_beat_ms(self, sent_ms: float, now_ms: float, *, has_renewed: bool) -> float:
        """When the next one is to be sent: at once when it can renew the row again."""
        if has_renewed or self._timely == 0:
            return sent_ms + self._times.beat_ms
        return now_ms if self.renews else max(now_ms, sent_ms + self._times.beat_ms / RETRIES_A_BEAT)

    def _removed(self, now_ms: float) -> list[Action]:
        lost = [Lose(group_id) for group_id in self._open]
        self.coordinator_id = None
        self._begin_anew(now_ms)
        return [*lost, Enter()]

    def _learn(self, view: OwnershipView, over: Collection[EndCoordinator]) -> None:
        self._coordinators = view.coordinators
        if over:
            ended = {each.coordinator_id for each in over}
            self._coordinators = {key: row for key, row in view.coordinators.items() if key not in ended}
        self._groups = dict(view.groups)
        for group_id, group in self._done_since.items():
            if group is None:
                self._groups.pop(group_id, None)
            else:
                self._groups[group_id] = group
        self._done_since.clear()

    def _known(self) -> OwnershipView:
        return OwnershipView(self._coordinators, self._groups)

    def _losses(self, me: str) -> list[Lose]:
        lost = []
        for group_id, epoch in self._open.items():
            group = self._groups.get(group_id)
            if group is None or group.owner != me or group.epoch != epoch:
                lost.append(Lose(group_id))
        for each in lost:
            del self._open[each.group_id]
        return lost

    def _moves(self, me: str, *, is_calm: bool) -> list[Action]:
        known, silent = self._known(), self._observation.silent()
        own = [group for group in self._groups.values() if group.owner == me and group.group_id not in self._open]
        takes = [Take(group.group_id, me, group.epoch) for group in own]
        takes += spreading.takes(known, me, silent, self._observation.waiting_in_vain())
        if takes or not is_calm or any(known.is_free(group) for group in self._groups.values()):
            return [*takes]
        move = spreading.hand_over(known, me, self._movable_ids & self._open.keys(), silent)
        if move is None:
            return []
        del self._open[move.group_id]
        return [move]

    def _opened(self, group_id: str, epoch: int) -> None:
        self._open[group_id] = epoch
        self._note(group_id, GroupOwner(group_id, self.coordinator_id, epoch, self._members(group_id)))

    def _members(self, group_id: str) -> int:
        known = self._groups.get(group_id)
        return 0 if known is None else known.members

    def _note(self, group_id: str, group: GroupOwner | None) -> None:
        self._done_since[group_id] = group
        if group is None:
            self._groups.pop(group_id, None)
        else:
            self._groups[group_id] = group
