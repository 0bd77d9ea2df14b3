"""The log of decisions. The code that makes a decision about a task also appends the decision to the log.

A decision is data, which `explain.py` converts to sentences. Kafka has no log of decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple, overload

from assignor.types import ProcessId, Role, TaskId


class DecisionKind(StrEnum):
    """The kinds of decisions, in the order of the steps that log them in a rebalance."""

    # decisions about the target of a copy: the client that should hold the copy when every client is caught up
    TARGET = "target"  # process = owner by round robin over sorted process ids (or, for a standby, the chosen host)
    BALANCED = "balanced"  # process = receiver, other = giver: balanceTasksOverThreads moved the target
    RACK_MOVED = "rack-moved"  # process = receiver, other = giver; detail = partitions fewer read across racks
    NO_STANDBY_HOST = "no-standby-host"  # detail = number of standbys that found no client
    # decisions about the client that holds the copy for now, given the lags
    KEPT = "kept"  # process = target, which is caught up or has the smallest lag
    SWAPPED = "swapped"  # process = caught-up standby that becomes active, other = target that becomes its standby
    MOVED_TO_CAUGHT_UP = "moved-to-caught-up"  # process = caught-up client, other = target
    MOVED_TO_MOST_CAUGHT_UP = "moved-to-most-caught-up"  # process = client with the least lag, other = target
    WARM_UP = "warm-up"  # process = target, which restores the state while `other` runs the task
    WARM_UP_BUDGET_SPENT = "warm-up-budget-spent"  # process = target that gets no copy in this rebalance
    NOWHERE_TO_MOVE = "nowhere-to-move"  # process = target of a standby that stays, as all better clients have a copy
    STATELESS = "stateless"  # process = client with the lowest load per thread
    # MinimalMovementTaskAssignor logs these kinds in place of TARGET and BALANCED; it also logs KEPT, SWAPPED and so on
    TARGET_KEPT = "target-kept"  # process = owner, which has no more than its share
    TARGET_MOVED = "target-moved"  # process = receiver, other = owner, which has more than its share
    TARGET_PINNED = "target-pinned"  # process = receiver, other = owner, where a pin forbids the task
    TARGET_NEW = "target-new"  # process = client of an active task that no caught-up client runs, or of a new standby
    # in TARGET_MOVED and TARGET_NEW, detail = partitions that the process reads across racks, for active tasks with
    # racks
    PIN_SET_ASIDE = "pin-set-aside"  # process = receiver; the pins are ignored, because no client can keep them
    HANDED_OVER = "handed-over"  # process = caught-up target, other = owner until now
    WAITS = "waits"  # process = owner, which runs the task until the target `other` has caught up
    NO_STATE = "no-state"  # process = target of a stateless task, which can move at once
    # the sticky and the fallback assignors log these kinds
    PREVIOUS_ACTIVE = "previous-active"  # process = client that ran the task before
    PREVIOUS_STANDBY = "previous-standby"  # process = client that had a standby of the task
    LEAST_LOADED = "least-loaded"  # process = client with the most room
    # the kinds of steering by operators (`steering/`)
    DRAIN_SET_ASIDE = "drain-set-aside"  # the drain is ignored, because every client is drained
    DRAIN_MOVES = "drain-moves"  # process = next owner, other = drained client that ran the task
    DRAIN_WAITS = "drain-waits"  # process = drained client that still runs the task, other = next owner, not caught up
    KEPT_OWNED = "kept-owned"  # process = owner, which keeps the task because running tasks do not move
    AWAY_PASSED_OVER = "away-passed-over"  # process = present client that gets the task, other = client that is away
    AWAY_KEEPS = "away-keeps"  # process = client that is away, other = present client that would have got the task
    # the assignment of tasks to threads logs these kinds
    THREAD_PREVIOUS_OWNER = "thread-previous-owner"  # consumer = thread that ran the task or had a standby of it
    THREAD_BALANCED = "thread-balanced"  # consumer = thread that had room
    WAITING_FOR_REVOCATION = "waiting-for-revocation"  # consumer = receiver, other_consumer = owner of a partition
    TEMPORARY_STANDBY = "temporary-standby"  # consumer = receiver, which keeps the state open until the revocation


class Decision(NamedTuple):
    """One decision. The comments in `DecisionKind` describe the fields for each kind of decision. `detail` is always a
    count.
    """

    kind: DecisionKind
    task: TaskId
    role: Role
    process: ProcessId | None = None
    other: ProcessId | None = None
    consumer: str | None = None
    other_consumer: str | None = None
    detail: int | None = None


class DecisionLog(Sequence[Decision]):
    """The decisions of a rebalance, in the order in which they were made; decisions can only be appended.

    A rebalance of thousands of tasks makes tens of thousands of decisions, and most of them are never read. So a step
    that decides about many tasks at once passes a function to `later`. The log calls the function when the log is first
    read.
    """

    __slots__ = ("_blocks", "_open")

    def __init__(self, decisions: Iterable[Decision] = ()) -> None:
        self._open: list[Decision] = list(decisions)
        self._blocks: list[list[Decision] | Callable[[], Iterable[Decision]]] = [self._open]

    def append(self, decision: Decision) -> None:
        self._open.append(decision)

    def extend(self, decisions: Iterable[Decision]) -> None:
        self._open.extend(decisions)

    def later(self, make: Callable[[], Iterable[Decision]]) -> None:
        """Appends the decisions that `make` returns. The log calls `make` at most once, when the log is first read; the
        result must not depend on the time of the call.
        """
        self._open = []
        self._blocks += (make, self._open)

    def _all(self) -> list[Decision]:
        if len(self._blocks) > 1:
            made: list[Decision] = []
            for block in self._blocks:
                made.extend(block if isinstance(block, list) else block())
            self._open, self._blocks = made, [made]
        return self._open

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[Decision]:
        return iter(self._all())

    @overload
    def __getitem__(self, at: int) -> Decision: ...

    @overload
    def __getitem__(self, at: slice) -> list[Decision]: ...

    def __getitem__(self, at: int | slice) -> Decision | list[Decision]:
        return self._all()[at]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return self._all() == list(other)

    def __reduce__(self) -> tuple[type[DecisionLog], tuple[list[Decision]]]:
        """Pickles the decisions instead of the stored functions, whose data would take more space."""
        return DecisionLog, (self._all(),)

    def __repr__(self) -> str:
        return f"DecisionLog({self._all()!r})"

    __hash__ = None  # type: ignore[assignment]  # unhashable, as a list is
