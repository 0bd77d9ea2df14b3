"""Every kind of thing that goes wrong, or that an operator does, as one plain sentence.

The sentences are what scenario files are written in. `Kind.drawn` gives one such thing of a kind, drawn by chance.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from random import Random

LASTING_MS = 1_000_000
"""Longer than any history: what an operator sets for so long stays."""


class Of(Enum):
    """What the target of a fault is a number of."""

    PROCESS = "process"
    STATIC_PROCESS = "static process"
    GROUP = "group"
    COORDINATOR = "coordinator"
    ALL = "all"


SHORT = (200, 3_000)
SOME = (300, 12_000)
"""Up to twice a session."""

WINDOW = (1_000, 10_000)
LEVER = (2_000, 15_000, LASTING_MS)
JUMPS = (-3_600_000, -20_000, -3_000, 3_000, 20_000, 3_600_000)


def pattern_of(sentence: str) -> re.Pattern[str]:
    """What a sentence matches in which a number or a word stands in place of each name in braces."""
    return re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[\\w-]+)", re.escape(sentence)))


class Kind(Enum):
    """The sentence, with its target; the shortest and the longest time (a third one: or so long); the amounts."""

    LOSS = "{amount} of 100 messages of {process} are lost for {for_ms} ms", WINDOW, (5, 20, 60)
    DELAY = "messages of {process} take up to {amount} ms for {for_ms} ms", WINDOW, (100, 1_000, 4_000)
    DUPLICATES = "{amount} of 100 messages of {process} come twice for {for_ms} ms", WINDOW, (20, 60)
    REORDER = "{amount} of 100 messages of {process} are overtaken by later ones for {for_ms} ms", WINDOW, (20, 60)
    CUT_OFF = "{process} is cut off for {for_ms} ms", SOME
    UNHEARD = "nothing that {process} sends arrives for {for_ms} ms", SOME
    DEAF = "nothing that is sent to {process} arrives for {for_ms} ms", SOME
    BROKEN = "the connection of {process} breaks"
    ALL_BROKEN = "all connections break"

    FROZEN = "{process} is frozen for {for_ms} ms", SOME
    KILLED = "{process} is killed, and is back after {for_ms} ms", SOME
    POWER_LOST = "the machine of {process} loses power, and is back after {for_ms} ms", SOME
    RESTARTED = "{process} ends in good order, and is back after {for_ms} ms", SOME
    SUCCEEDED = "{static process} is started anew elsewhere while the old one, cut off for {for_ms} ms, lives on", SOME
    SLOW = "{process} takes up to {amount} ms to carry out an order for {for_ms} ms", WINDOW, (500, 5_000)
    CLOCK = "the clock of {process} jumps by {amount} ms", (), JUMPS
    MIGRATED = "a commit of {process} is refused"
    THREAD_ENDED = "a thread of {process} is closed"
    REJOIN = "a thread of {process} asks for a rebalance"

    DIES_BEFORE_COMMIT = "{process} is killed before it commits to the log, and is back after {for_ms} ms", SOME
    DIES_AFTER_COMMIT = "{process} is killed after it commits to the log, and is back after {for_ms} ms", SOME
    DIES_WRITING = "{process} is killed as it writes to its disk, and is back after {for_ms} ms", SOME
    DIES_FLUSHING = "{process} is killed as it flushes a store, and is back after {for_ms} ms", SOME
    STORES_DAMAGED = "the machine of {process} fails and damages stores, and is back after {for_ms} ms", SOME
    DISK_FULL = "the disk of {process} is full for {for_ms} ms", (3_000, 15_000)
    DISK_SLOW = "each write to the disk of {process} takes {amount} ms for {for_ms} ms", WINDOW, (5, 50, 200)
    LOG_AWAY = "the log of {group} is out of reach for {for_ms} ms", SHORT
    LOG_SLOW = "a commit to the log of {group} takes {amount} ms for {for_ms} ms", WINDOW, (50, 1_000)
    LOG_SILENT = "{amount} of 100 answers to commits to the log of {group} are lost for {for_ms} ms", WINDOW, (30, 100)

    COORDINATOR_KILLED = "{coordinator} is killed, and is back after {for_ms} ms", SOME
    KILLED_BEFORE_COMMIT = "the coordinator that commits next is killed before it, and is back after {for_ms} ms", SHORT
    KILLED_AFTER_COMMIT = "the coordinator that commits next is killed after it, and is back after {for_ms} ms", SHORT
    COORDINATOR_FROZEN = "{coordinator} is frozen for {for_ms} ms", SOME
    COORDINATOR_CUT = "{coordinator} cannot reach the database for {for_ms} ms", SOME
    COORDINATOR_SLOW = (
        "what the database answers to {coordinator} takes up to {amount} ms for {for_ms} ms",
        WINDOW,
        (500, 2_000),
    )
    COORDINATOR_STOPPED = "{coordinator} ends in good order, and is back after {for_ms} ms", SOME
    TAKEN_OVER = "{coordinator} is started anew while the old one, without the database, goes on for {for_ms} ms", SOME
    COORDINATOR_CLOCK = "the clock of {coordinator} jumps by {amount} ms", (), JUMPS
    HEAVIER = "{group} is taken for {amount} members larger for {for_ms} ms, so that others move", WINDOW, (3, 20)
    OVERLOAD = "the coordinators refuse joins for {for_ms} ms", WINDOW

    SLOW_COMMITS = "commits take up to {amount} ms for {for_ms} ms", WINDOW, (500, 3_000)
    FAILED_COMMITS = "{amount} of 100 commits fail for {for_ms} ms", WINDOW, (20, 60)
    UNKNOWN_COMMITS = "{amount} of 100 commits are made and seem to have failed for {for_ms} ms", WINDOW, (20, 60)
    DATABASE_FULL = "the disk of the database is full for {for_ms} ms", WINDOW
    DATABASE_AWAY = "the database is out of reach for {for_ms} ms", WINDOW

    SLOW_LEADER = "rebalances of {group} take up to {amount} ms for {for_ms} ms", WINDOW, (500, 3_000)
    FAILED_REBALANCE = "the next rebalance of {group} fails"

    HELD = "rebalances of {group} wait for approval up to {amount} ms, for {for_ms} ms", LEVER, (500, 3_000, 8_000)
    APPROVED = "rebalances of {group} that wait are approved for {for_ms} ms", LEVER
    DISCARDED = "rebalances of {group} that wait are discarded for {for_ms} ms", LEVER
    PAUSED = "{group} is paused for {for_ms} ms", LEVER
    GRACE = "members of {group} may be away up to {amount} ms, for {for_ms} ms", LEVER, (1_000, 5_000, 10_000)
    PROMOTION = "warm-ups of {group} are promoted for {for_ms} ms", LEVER
    DRAINED = "{process} is drained for {for_ms} ms", LEVER
    ASKED = "a rebalance of {group} is asked for"
    REDECLARED = "{group} gets another definition"
    TOLD_TO_STOP = "{group} is told to stop for {for_ms} ms", SOME

    def __init__(self, text: str, times: tuple[int, ...] = (), amounts: tuple[int, ...] = ()) -> None:
        target = re.compile("{((static )?(process|group|coordinator))}")
        named = target.search(text)
        self.of = Of(named[1]) if named else Of.ALL
        self.sentence = sentence = target.sub(r"\3 {target}", text)
        self.times = times
        self.amounts = amounts
        self.pattern = pattern_of(sentence)

    @property
    def words(self) -> str:
        """Its name, for people."""
        return self.name.lower().replace("_", " ")

    def drawn(self, at_ms: int, target: int, chance: Random) -> Fault:
        for_ms = 0
        if self.times:
            lasting = self.times[2:]
            for_ms = lasting[0] if lasting and chance.random() < 0.5 else chance.randint(*self.times[:2])
        return Fault(at_ms, self, target, for_ms, chance.choice(self.amounts) if self.amounts else 0)


_MOVES_TASKS = (Kind.RESTARTED, Kind.RESTARTED, Kind.DRAINED)
NEEDS = {Kind.HELD: _MOVES_TASKS, Kind.APPROVED: _MOVES_TASKS, Kind.DISCARDED: _MOVES_TASKS}
"""What is to happen as well, so that a kind can take effect: a rebalance waits when it takes a task from somebody."""

ON_POSTGRESQL = frozenset({Kind.COORDINATOR_CUT, Kind.COORDINATOR_SLOW, Kind.TAKEN_OVER, Kind.HEAVIER})
"""What cannot happen to a coordinator that has a file for itself."""

MORE_OFTEN = {
    Kind.APPROVED: 4,
    Kind.DISCARDED: 4,
    Kind.DIES_BEFORE_COMMIT: 2,
    Kind.DIES_AFTER_COMMIT: 2,
    Kind.DIES_FLUSHING: 2,
    Kind.DIES_WRITING: 2,
    Kind.DISK_SLOW: 2,
    Kind.SLOW_LEADER: 2,
    Kind.FAILED_REBALANCE: 2,
    Kind.HEAVIER: 3,
    Kind.COORDINATOR_SLOW: 2,
}
"""What takes effect in few of its places, and how much more often it is drawn."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`target`: number of the process, the group or the coordinator, 0 where there is none. `amount`: what the sentence
    says.
    """

    at_ms: int
    kind: Kind
    target: int = 0
    for_ms: int = 0
    amount: int = 0

    def text(self) -> str:
        said = self.kind.sentence.format(target=self.target, for_ms=self.for_ms, amount=self.amount)
        return f"{self.at_ms} {said}"


def parsed(line: str) -> Fault:
    """Raises ValueError."""
    at_ms, _, said = line.strip().partition(" ")
    for kind in Kind:
        found = kind.pattern.fullmatch(said)
        if found is not None:
            return Fault(int(at_ms), kind, **{name: int(value) for name, value in found.groupdict().items()})
    raise ValueError(f"no such thing can happen: {line}")
