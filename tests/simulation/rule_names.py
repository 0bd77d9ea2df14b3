"""The names of the rules that have to hold."""

from __future__ import annotations

from enum import StrEnum


class Rule(StrEnum):
    ONE_OWNER = "one active owner of a task"
    NOT_BOTH = "never active and standby in one process"
    GIVEN_UP_FIRST = "nothing is handed out before it was given up"
    ANSWERED_SURVIVES = "all that was answered survives"
    GENERATIONS_RISE = "generations rise"
    NO_TASK_ALONE = "no task without an owner for long"
    LEVERS_STAY = "what was held, drained or paused stays so"
    BECOMES_STABLE = "a quiet network leads to stable"
    EXACT_COUNTS = "counts are exact"
    HEARD_STAY = "nobody is evicted who is heard"
    ONE_MEMBER = "nobody is in the group twice"
    FITS_TOGETHER = "the group's own invariants"
    OWNER_WRITES = "only its owner writes a group"
    OWNER_ANSWERS = "only its owner answers for a group, within its lease"
    SERVED_AGAIN = "a group is served again within the lease timeout"
    LIVING_STAY = "no coordinator is ended that can renew its row"
    HANDED_OUT_IS_STORED = "what is handed out is what was stored"
    ACKNOWLEDGED_IS_FETCHED = "who counts as having its assignment has fetched it"
    NO_MEMBER_FAILS = "no member fails"
    NOT_LOST_FOR_NOTHING = "nobody gives up everything because of an answer that is out of date"
    DRAINED_RUNS_NOTHING = "who is drained runs nothing in the end"
    REPLAYS = "the state is what the records replay to"
    HELD_HAS_OWNERS = "a rebalance that waits leaves no task without an owner"
    NOT_LATE_WHILE_HELD = "nobody is removed for being late while a rebalance waits"
