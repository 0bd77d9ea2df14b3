"""Formats the copies of a task, and the changes of these copies by a rebalance or a what-if, as text."""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from assignor.names.short_names import ShortNames, short_member
from assignor.task_assignors.decisions import DecisionKind
from assignor.types import ProcessId, Role
from rebalance_analysis.history import PlacedCopy, TaskChange, TaskRebalance
from rebalance_analysis.history.task_history import TaskWaiting, active_of
from rebalance_analysis.presentation.quantities import UNKNOWN, count_text, lag_text
from rebalance_analysis.presentation.rebalances import probing_text

NOT_HANDED_OUT = "not handed out yet"


class CopyRow(NamedTuple):
    """The texts about one copy of a task. `process`: the name of the process of the copy. `about`: the thread and the
    lag of the copy, as far as they are known. `held_back`: a remark if the process does not have the task yet;
    otherwise empty.
    """

    role: str
    process: str
    about: str
    held_back: str

    def __str__(self) -> str:
        held_back = f", {self.held_back}" if self.held_back else ""
        return f"{self.role} on {self.process}{f' ({self.about})' if self.about else ''}{held_back}"


def copy_row(copy: PlacedCopy, names: ShortNames, *, lags: bool = True) -> CopyRow:
    parts = [names.thread(copy.process, copy.name), lag_text(copy.lag) if lags else ""]
    about = ", ".join(part for part in parts if part)
    return CopyRow(str(copy.role), names.short(copy.process), about, NOT_HANDED_OUT if copy.held_back else "")


def copies_text(copies: Sequence[PlacedCopy], names: ShortNames, *, lags: bool = True) -> str:
    return ", ".join(str(copy_row(copy, names, lags=lags)) for copy in copies) or "nowhere"


def waiting_text(waiting: TaskWaiting | None, names: ShortNames) -> str:
    """Returns a text with the event that a task waits for, such as `b (lag 12) to catch up`."""
    if waiting is None:
        return "nothing"
    if waiting.kind is DecisionKind.WAITING_FOR_REVOCATION:
        return f"{short_member(waiting.member) or 'its owner'} to give it up"
    lag = lag_text(waiting.lag)
    follows = "" if waiting.next_round_ms is None else f"; {probing_text(waiting.next_round_ms)}"
    return f"{names.short(waiting.process)}{f' ({lag})' if lag else ''} {WAITED_FOR[waiting.kind]}{follows}"


WAITED_FOR = {
    DecisionKind.WARM_UP: "to catch up",
    DecisionKind.WARM_UP_BUDGET_SPENT: "to get its turn at warming up (max.warmup.replicas)",
}
"""For each kind of decision, the text of the event that an instance waits for before a task moves to it."""


class Title(NamedTuple):
    """The verb for a kind of change. `of_one`: the verb after `1 task`. `of_several`: the verb after `3 tasks`."""

    of_one: str
    of_several: str


class ChangeTitle(Enum):
    """The kinds of changes that users see, most important first.

    `TaskChange` in `history/task_history.py` has the kinds of changes in recordings. `title_of` converts a `TaskChange`
    to a `ChangeTitle`.
    """

    MOVES = Title("moves", "move")
    HELD_BACK = Title("moves once it is given up", "move once they are given up")
    STARTS = Title("starts", "start")
    HANDED_OVER = Title("is handed over", "are handed over")
    NO_OWNER = Title("has no owner", "have no owner")
    GONE = Title("is gone", "are gone")
    THREAD = Title("goes to another thread", "go to another thread")
    WARM_UP = Title("gets a warm-up", "get a warm-up")
    NO_WARM_UP = Title("loses its warm-up", "lose their warm-up")
    STANDBYS = Title("gets other standbys", "get other standbys")
    STAYS = Title("stays where it is", "stay where they are")

    @property
    def is_move(self) -> bool:
        """True if the active copy moves to another process, immediately or after its owner has revoked the task."""
        return self in (ChangeTitle.MOVES, ChangeTitle.HELD_BACK)

    def of(self, count: int) -> str:
        return self.value.of_one if count == 1 else self.value.of_several


_SAME = {
    TaskChange.MOVED: ChangeTitle.MOVES,
    TaskChange.HELD_BACK: ChangeTitle.HELD_BACK,
    TaskChange.FIRST: ChangeTitle.STARTS,
    TaskChange.HANDED_OVER: ChangeTitle.HANDED_OVER,
    TaskChange.NOT_PLACED: ChangeTitle.NO_OWNER,
    TaskChange.ABSENT: ChangeTitle.GONE,
    TaskChange.THREAD: ChangeTitle.THREAD,
    TaskChange.STAYED: ChangeTitle.STAYS,
}


def title_of(each: TaskRebalance) -> ChangeTitle:
    """Returns the kind of change of a task. In the first recorded rebalance, the members' subscriptions show the
    previous owners of the task.
    """
    active = active_process(each.copies)
    previous = owners_before(each)
    if each.change is TaskChange.FIRST and active is not None and previous:
        return ChangeTitle.STAYS if active in previous else ChangeTitle.MOVES
    if each.change is TaskChange.HELD_BACK and active is None:
        return ChangeTitle.NO_OWNER
    if each.change is TaskChange.HELD_BACK and active in previous:
        return ChangeTitle.THREAD
    return _of_standbys(each) if each.change is TaskChange.COPIES else _SAME[each.change]


def owners_before(each: TaskRebalance) -> tuple[ProcessId, ...]:
    """Returns the processes that ran the task before the rebalance, according to the members' subscriptions."""
    return () if each.explanation is None else each.explanation.previous


def active_process(copies: Sequence[PlacedCopy]) -> ProcessId | None:
    """Returns the process with the active copy, even if the copy is held back; None if there is no active copy."""
    active = active_of(copies)
    return None if active is None else active.process


def same_standbys(each: TaskRebalance) -> bool:
    before, now = (
        {place for place in places(copies) if place[0] is not Role.ACTIVE} for copies in (each.before, each.copies)
    )
    return before == now


def places(copies: Sequence[PlacedCopy]) -> set[tuple[Role, ProcessId]]:
    return {(copy.role, copy.process) for copy in copies}


def _of_standbys(each: TaskRebalance) -> ChangeTitle:
    before, now = places(each.before), places(each.copies)
    new, lost = ({role for role, _ in some} for some in (now - before, before - now))
    if new == {Role.WARM_UP} and not lost:
        return ChangeTitle.WARM_UP
    return ChangeTitle.NO_WARM_UP if lost == {Role.WARM_UP} and not new else ChangeTitle.STANDBYS


class CopyChanges(NamedTuple):
    """The changed copies of a task, with displayed names of processes or members. `active`: the old and the new owner
    of the active copy; None if the owner did not change. `to_restore`: a text with the number of records that each
    process has to restore; empty if there are none.
    """

    task: str
    active: tuple[str, str] | None
    standby_gone: Sequence[str]
    standby_new: Sequence[str]
    warm_up_gone: Sequence[str] = ()
    warm_up_new: Sequence[str] = ()
    to_restore: str = ""

    def __str__(self) -> str:
        """Formats all changes as a line, such as `0_3: active a -> b; standby -b; to restore: 5,000 on b`."""
        parts = [] if self.active is None else [f"active {' -> '.join(self.active)}"]
        for role, signed in (("standby", self.standby), ("warm-up", self.warm_up)):
            parts += [f"{role} {signed}"] if signed else []
        parts += [f"to restore: {self.to_restore}"] if self.to_restore else []
        return f"{self.task}: {'; '.join(parts)}"

    @property
    def standby(self) -> str:
        """The removed and the added standbys, such as `-a +b`."""
        return _signed(self.standby_gone, self.standby_new)

    @property
    def warm_up(self) -> str:
        return _signed(self.warm_up_gone, self.warm_up_new)


def copy_changes(document: Mapping[str, Any], name: Callable[[str], str]) -> CopyChanges:
    """Makes the texts for one task. `document`: the part about this task in the output of `assignor what-if -o json` or
    `assignor diff -o json`. `name`: a function that returns the displayed name of a process or a member.
    """
    active, warm_up = document["active"], document.get("warm_up", {"gone": (), "new": ()})
    records: Mapping[str, int | None] = document.get("records_to_restore", {})
    to_restore = (
        f"{UNKNOWN if count is None else count_text(count)} on {name(process)}"
        for process, count in records.items()
        if count != 0
    )
    return CopyChanges(
        document["task"],
        None
        if active is None or active["from"] == active["to"]
        else (_owners(active["from"], name), _owners(active["to"], name)),
        [name(each) for each in document["standby"]["gone"]],
        [name(each) for each in document["standby"]["new"]],
        [name(each) for each in warm_up["gone"]],
        [name(each) for each in warm_up["new"]],
        ", ".join(to_restore),
    )


def _owners(owners: str | Sequence[str] | None, name: Callable[[str], str]) -> str:
    """Formats the owners of a task as text. In a what-if, the owner is a process. In a diff, the owners are members."""
    if isinstance(owners, str):
        return name(owners)
    return ", ".join(map(name, owners)) if owners else "nobody"


def _signed(gone: Sequence[str], new: Sequence[str]) -> str:
    return " ".join([*(f"-{each}" for each in gone), *(f"+{each}" for each in new)])
