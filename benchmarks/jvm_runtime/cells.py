"""What is compared: applications, numbers of keys and record caches."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

MAP, COUNT, WINDOWED_SUM, JOIN, PROCESSOR = "map", "count", "windowed-sum", "join", "processor"
STREAM_JOIN, SESSIONS, SUPPRESS = "stream-join", "sessions", "suppress"
FOREIGN_KEY_JOIN, GLOBAL_JOIN = "foreign-key-join", "global-join"
TITLES = {
    MAP: "stateless map",
    COUNT: "keyed count",
    WINDOWED_SUM: "windowed sum",
    JOIN: "stream-table join",
    PROCESSOR: "processor with a store",
    STREAM_JOIN: "stream-stream join",
    SESSIONS: "session windows",
    SUPPRESS: "suppress until a window closes",
    FOREIGN_KEY_JOIN: "foreign-key join, 10 rows a key",
    GLOBAL_JOIN: "global join",
}
APPLICATIONS = tuple(TITLES)
KEYS = (1_000, 10_000, 1_000_000)
TYPICAL_KEYS = 10_000
"""With which one-off goals are measured."""
ROWS_A_KEY = 10
"""Rows of the left table for each key of a foreign-key join."""
ROWS_FIRST_MS = 10_000
"""`max.task.idle.ms` of a foreign-key join: the first events wait until the subscriptions of all rows have come."""
KEYS_OF = {
    PROCESSOR: (TYPICAL_KEYS,),
    STREAM_JOIN: (1_000, 1_000_000),
    SESSIONS: (TYPICAL_KEYS,),
    SUPPRESS: (TYPICAL_KEYS,),
    FOREIGN_KEY_JOIN: (TYPICAL_KEYS // ROWS_A_KEY,),
    GLOBAL_JOIN: (TYPICAL_KEYS,),
}
"""Applications that are only measured with these numbers of keys, and without a record cache."""
CACHES = {"default": 10_485_760, "0": 0}
"""`statestore.cache.max.bytes` by the name of the setting: Kafka Streams' default, and no record cache."""
NO_CACHE = "0"


@dataclass(frozen=True, slots=True)
class Cell:
    """`keys`: how many different ones. `cache`: a name of `CACHES`. `compares_threads`: several stream threads or
    instances with one, and nobody else, over more records: in half a second, what a run waits for once hides what
    threads bring.
    """

    application: str
    keys: int
    cache: str
    compares_threads: bool = False

    @property
    def title(self) -> str:
        return TITLES[self.application] + (", threads" if self.compares_threads else "")

    @property
    def name(self) -> str:
        return f"{self.title}, {self.keys:,} keys, record cache {self.cache}"

    @property
    def times_records(self) -> int:
        """How many times as many events as in other cells."""
        return 5 if self.compares_threads else 1

    @property
    def cache_bytes(self) -> int:
        return CACHES[self.cache]

    @property
    def records_an_event(self) -> int:
        """How many records the application processes for each event, with those of internal topics and of the other
        stream. Such a cell has fewer events.
        """
        return {STREAM_JOIN: 2, FOREIGN_KEY_JOIN: 1 + ROWS_A_KEY}.get(self.application, 1)

    @property
    def records_before(self) -> int:
        """How many records the application processes before the first event: rows of its table and subscriptions."""
        return {JOIN: self.keys, FOREIGN_KEY_JOIN: 2 * ROWS_A_KEY * self.keys}.get(self.application, 0)

    @property
    def sends_every_record(self) -> bool:
        """Whether the outputs are the same ones in each run. In a foreign-key join, the first events may come before
        the subscriptions of the rows, if the machine is slow.
        """
        return self.application in (MAP, JOIN) or (self.cache == NO_CACHE and self.application != FOREIGN_KEY_JOIN)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which cells are measured."""

    applications: Sequence[str] = APPLICATIONS
    keys: Sequence[int] = KEYS
    caches: Sequence[str] = tuple(CACHES)

    def cells(self) -> list[Cell]:
        """All of one number of keys together, because they read the same topic. The map has no store, so it has no
        cache either. Several threads have one goal, which is measured with one number of keys and without a cache.
        """
        cells = [
            Cell(application, keys, cache)
            for keys in self.keys
            for application in self.applications
            for cache in self._caches(application)
            if keys in KEYS_OF.get(application, (keys,))
        ]
        if (typical := Cell(COUNT, TYPICAL_KEYS, NO_CACHE)) in cells:
            cells.insert(cells.index(typical) + 1, replace(typical, compares_threads=True))
        return cells

    def _caches(self, application: str) -> Sequence[str]:
        return (NO_CACHE,) if application == MAP or application in KEYS_OF else self.caches


QUICK = Choice((COUNT,), (1_000,), (NO_CACHE,))
