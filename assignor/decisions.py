"""The log of decisions: each step that places a task says so here, in the code path that decides.

A decision is data, `explain.py` makes sentences of it. Kafka logs nothing of the kind; it is what this project adds.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from assignor.types import ProcessId, Role, TaskId


class DecisionKind(StrEnum):
    """In the order in which the steps of a round can say them."""

    # the target: where the task belongs when every client is caught up
    TARGET = "target"  # process = owner by round robin over sorted process ids (or, for a standby, the chosen host)
    BALANCED = "balanced"  # process = receiver, other = giver: balanceTasksOverThreads moved the target
    NO_STANDBY_HOST = "no-standby-host"  # detail = how many of num.standby.replicas found no client
    # what lag makes of it
    KEPT = "kept"  # process = target, and it is caught up or nobody is more caught up
    SWAPPED = "swapped"  # process = caught-up standby that becomes active, other = target that becomes its standby
    MOVED_TO_CAUGHT_UP = "moved-to-caught-up"  # process = caught-up client, other = target
    MOVED_TO_MOST_CAUGHT_UP = "moved-to-most-caught-up"  # process = client with the least lag, other = target
    WARM_UP = "warm-up"  # process = target, which restores the state while `other` works
    WARM_UP_BUDGET_SPENT = "warm-up-budget-spent"  # process = target that gets nothing this round
    NOWHERE_TO_MOVE = "nowhere-to-move"  # standby stays on process: no better client without a copy
    STATELESS = "stateless"  # process = client with the lowest load per thread
    # MinimalMovementTaskAssignor, instead of target and balanced; afterwards kept, swapped and so on as above
    TARGET_KEPT = "target-kept"  # process = who has it, and has no more than its share
    TARGET_MOVED = "target-moved"  # process = receiver, other = who has it, but has more than its share
    TARGET_PINNED = "target-pinned"  # process = receiver, other = who has it, but a pin keeps the task off
    TARGET_NEW = "target-new"  # process = chosen client; active: nobody caught up has it running, else one more copy
    PIN_SET_ASIDE = "pin-set-aside"  # process = where it belongs all the same, as no client can keep the pins
    HANDED_OVER = "handed-over"  # process = target that is caught up, other = who had it until now
    WAITS = "waits"  # process = who has it until `other`, its target, has caught up
    NO_STATE = "no-state"  # stateless: process = target, where it can run at once
    # sticky and fallback assignors
    PREVIOUS_ACTIVE = "previous-active"  # process had it running
    PREVIOUS_STANDBY = "previous-standby"  # process had a standby
    LEAST_LOADED = "least-loaded"  # process = client with most room
    # tasks to threads
    THREAD_PREVIOUS_OWNER = "thread-previous-owner"  # consumer had it
    THREAD_BALANCED = "thread-balanced"  # consumer had room
    WAITING_FOR_REVOCATION = "waiting-for-revocation"  # consumer waits, `other_consumer` still owns a partition
    TEMPORARY_STANDBY = "temporary-standby"  # consumer keeps the state open until the task is revoked


class Decision(NamedTuple):
    """One step. What each field means is said at the kind; `detail` is a count."""

    kind: DecisionKind
    task: TaskId
    role: Role
    process: ProcessId | None = None
    other: ProcessId | None = None
    consumer: str | None = None
    other_consumer: str | None = None
    detail: int | None = None


DecisionLog = list[Decision]
"""Append-only, in the order decided."""
