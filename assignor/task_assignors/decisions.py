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

    # These kinds choose the target of a copy: the client that should have the copy when every client is caught up.
    TARGET = "target"  # `process`: the target, chosen by round robin over process ids; or the client of a standby.
    BALANCED = "balanced"  # `process`: the new target; `other`: the old target, which had too many tasks per thread.
    RACK_MOVED = "rack-moved"  # The copy moves from `other` to `process`, which saves `detail` cross-rack reads.
    NO_STANDBY_HOST = "no-standby-host"  # `detail`: the number of standbys for which there was no client.
    # These kinds choose the client that has the copy after this rebalance. The lags determine this client.
    KEPT = "kept"  # `process`: the target, which is caught up or has the smallest lag.
    SWAPPED = "swapped"  # The caught-up client `process` gives its standby to the target `other` and runs the task.
    MOVED_TO_CAUGHT_UP = "moved-to-caught-up"  # `process`: a caught-up client; `other`: the target.
    MOVED_TO_MOST_CAUGHT_UP = "moved-to-most-caught-up"  # `process` has the smallest lag; `other` is the target.
    WARM_UP = "warm-up"  # `process`: the target, which restores the state; `other`: the client that runs the task.
    WARM_UP_BUDGET_SPENT = "warm-up-budget-spent"  # `process`: the target, which gets no copy in this rebalance.
    NOWHERE_TO_MOVE = "nowhere-to-move"  # The target `process` keeps the standby, because better clients have a copy.
    STATELESS = "stateless"  # `process`: the client with the lowest load per thread.
    # MinimalMovementTaskAssignor logs these kinds instead of TARGET and BALANCED. MinimalMovementTaskAssignor also logs
    # kinds such as KEPT.
    TARGET_KEPT = "target-kept"  # `process`: the owner, which has no more than its share.
    TARGET_MOVED = "target-moved"  # `process`: the new target; `other`: the owner, which has more than its share.
    TARGET_PINNED = "target-pinned"  # A pin moves the target from the owner `other` to `process`.
    TARGET_NEW = "target-new"  # `process`: the client of a new standby, or of a task without a caught-up client.
    # For active tasks, `detail` of TARGET_MOVED and TARGET_NEW is the number of cross-rack reads of `process`, if a
    # rack-aware strategy is configured.
    PIN_SET_ASIDE = "pin-set-aside"  # `process` gets the task; the pins are ignored, because no client satisfies them.
    HANDED_OVER = "handed-over"  # `process`: the caught-up target; `other`: the previous owner.
    WAITS = "waits"  # `process`: the owner, which runs the task until the target `other` is caught up.
    NO_STATE = "no-state"  # `process`: the target of a stateless task, which moves immediately.
    # The sticky and the fallback assignors log these kinds.
    PREVIOUS_ACTIVE = "previous-active"  # `process`: the client that ran the task before.
    PREVIOUS_STANDBY = "previous-standby"  # `process`: a client that had a standby of the task.
    LEAST_LOADED = "least-loaded"  # `process`: the client with the most room.
    # The assignors that follow the instructions of operators (`steering/`) log these kinds.
    DRAIN_SET_ASIDE = "drain-set-aside"  # The drain is ignored, because every client is drained.
    DRAIN_MOVES = "drain-moves"  # `process`: the next owner; `other`: the drained client that ran the task.
    DRAIN_WAITS = "drain-waits"  # `process`: the drained client, which still runs the task; `other`: the next owner.
    KEPT_OWNED = "kept-owned"  # `process`: the owner, which keeps the task because running tasks do not move.
    AWAY_PASSED_OVER = "away-passed-over"  # `process`: a present client that gets the task; `other`: the absent client.
    AWAY_KEEPS = "away-keeps"  # `process`: the absent owner; `other`: a client that does not get the task.
    # The assignment of tasks to threads logs these kinds.
    THREAD_PREVIOUS_OWNER = "thread-previous-owner"  # `consumer`: the thread that ran the task or had a standby of it.
    THREAD_BALANCED = "thread-balanced"  # `consumer`: a thread that had room.
    WAITING_FOR_REVOCATION = "waiting-for-revocation"  # `consumer` waits until `other_consumer` has revoked the task.
    TEMPORARY_STANDBY = "temporary-standby"  # `consumer` keeps the task's state open until it gets the task.


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
    """The decisions of a rebalance, in the order in which they were made. Decisions can only be appended.

    A rebalance of thousands of tasks makes tens of thousands of decisions, and most of them are never read. So a step
    that decides about many tasks at once passes a function to `later`. The log calls the function when a caller first
    reads the log.
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
        """Appends the decisions that `make` returns. The log calls the function `make` at most once, when a caller
        first reads the log. The result of `make` must not depend on the time of the call.
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
        """Pickles the decisions instead of the stored functions, because the data of these functions would need more
        space.
        """
        return DecisionLog, (self._all(),)

    def __repr__(self) -> str:
        return f"DecisionLog({self._all()!r})"

    # A log is unhashable, as a list is.
    __hash__ = None  # type: ignore[assignment]
