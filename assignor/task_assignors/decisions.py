"""The log of decisions: each step that places a task appends one, in the code path that decides.

A decision is data; `explain.py` turns it into sentences. Kafka logs nothing of the kind: this project adds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple, overload

from assignor.types import ProcessId, Role, TaskId


class DecisionKind(StrEnum):
    """In the order in which the steps of a rebalance can log them."""

    # the target: where the task belongs once every client is caught up
    TARGET = "target"  # process = owner by round robin over sorted process ids (or, for a standby, the chosen host)
    BALANCED = "balanced"  # process = receiver, other = giver: balanceTasksOverThreads moved the target
    RACK_MOVED = "rack-moved"  # process = receiver, other = giver; detail = partitions fewer read across racks
    NO_STANDBY_HOST = "no-standby-host"  # detail = how many of num.standby.replicas found no client
    # where lag lets the task run for now
    KEPT = "kept"  # process = target, which is caught up, or no other client has a smaller lag
    SWAPPED = "swapped"  # process = caught-up standby that becomes active, other = target that becomes its standby
    MOVED_TO_CAUGHT_UP = "moved-to-caught-up"  # process = caught-up client, other = target
    MOVED_TO_MOST_CAUGHT_UP = "moved-to-most-caught-up"  # process = client with the least lag, other = target
    WARM_UP = "warm-up"  # process = target, which restores the state while `other` works
    WARM_UP_BUDGET_SPENT = "warm-up-budget-spent"  # process = target that gets no copy in this rebalance
    NOWHERE_TO_MOVE = "nowhere-to-move"  # standby stays on process: no better client without a copy
    STATELESS = "stateless"  # process = client with the lowest load per thread
    # MinimalMovementTaskAssignor, instead of target and balanced; afterwards kept, swapped and so on as above
    TARGET_KEPT = "target-kept"  # process = owner, which has no more than its share
    TARGET_MOVED = "target-moved"  # process = receiver, other = owner, which has more than its share; detail: below
    TARGET_PINNED = "target-pinned"  # process = receiver, other = owner, which a pin keeps the task off
    TARGET_NEW = "target-new"  # process = chosen client; an active that no caught-up client runs, or one more standby
    # detail of these two, of an active with a rack-aware strategy = how many partitions process reads across racks
    PIN_SET_ASIDE = "pin-set-aside"  # process = receiver; no client can keep the pins
    HANDED_OVER = "handed-over"  # process = caught-up target, other = owner until now
    WAITS = "waits"  # process = owner until `other`, the target, has caught up
    NO_STATE = "no-state"  # stateless: process = target, where it can run at once
    # sticky and fallback assignors
    PREVIOUS_ACTIVE = "previous-active"  # process ran it before
    PREVIOUS_STANDBY = "previous-standby"  # process had a standby of it
    LEAST_LOADED = "least-loaded"  # process = client with the most room
    # what operators ask for (`steering`), beside and instead of the above
    DRAIN_SET_ASIDE = "drain-set-aside"  # every client is drained, so none is
    DRAIN_MOVES = "drain-moves"  # process = next owner, other = drained client that ran it
    DRAIN_WAITS = "drain-waits"  # process = drained client that runs it until `other`, its next owner, has caught up
    KEPT_OWNED = "kept-owned"  # process = owner; nothing that runs is moved
    AWAY_PASSED_OVER = "away-passed-over"  # process = present client that runs it, and not `other`, which is away
    AWAY_KEEPS = "away-keeps"  # process = client that is away, `other` = present client that would have got it
    # tasks to threads
    THREAD_PREVIOUS_OWNER = "thread-previous-owner"  # consumer ran it or had a standby of it
    THREAD_BALANCED = "thread-balanced"  # consumer had room
    WAITING_FOR_REVOCATION = "waiting-for-revocation"  # consumer waits; other_consumer still owns a partition
    TEMPORARY_STANDBY = "temporary-standby"  # consumer keeps the state open until the task is revoked


class Decision(NamedTuple):
    """One step. The comment at its kind says what each field holds; `detail` is a count."""

    kind: DecisionKind
    task: TaskId
    role: Role
    process: ProcessId | None = None
    other: ProcessId | None = None
    consumer: str | None = None
    other_consumer: str | None = None
    detail: int | None = None


class DecisionLog(Sequence[Decision]):
    """Append-only, in the order of the decisions.

    A rebalance of thousands of tasks decides tens of thousands of times, and most of its decisions nobody ever reads.
    So a step that decides about many tasks at once leaves here what can make them (`later`), and the decisions
    themselves are made when somebody looks.
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
        """`make` is called at most once, and has to give the same decisions whenever that is."""
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
        """In full: what is left here to make them would take more than they do."""
        return DecisionLog, (self._all(),)

    def __repr__(self) -> str:
        return f"DecisionLog({self._all()!r})"

    __hash__ = None  # type: ignore[assignment]  # as every list
