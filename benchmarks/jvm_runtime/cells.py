"""What is compared: applications, numbers of keys and record caches."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

MAP, COUNT, WINDOWED_SUM, JOIN, PROCESSOR = "map", "count", "windowed-sum", "join", "processor"
TITLES = {
    MAP: "stateless map",
    COUNT: "keyed count",
    WINDOWED_SUM: "windowed sum",
    JOIN: "stream-table join",
    PROCESSOR: "processor with a store",
}
APPLICATIONS = tuple(TITLES)
KEYS = (1_000, 10_000, 1_000_000)
TYPICAL_KEYS = 10_000
"""With which one-off goals are measured."""
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
    def has_table(self) -> bool:
        return self.application == JOIN

    @property
    def sends_every_record(self) -> bool:
        """Whether each input record has an output of its own, also with a record cache."""
        return self.application in (MAP, JOIN) or self.cache == NO_CACHE


@dataclass(frozen=True, slots=True)
class Choice:
    """Which cells are measured."""

    applications: Sequence[str] = APPLICATIONS
    keys: Sequence[int] = KEYS
    caches: Sequence[str] = tuple(CACHES)

    def cells(self) -> list[Cell]:
        """All of one number of keys together, because they read the same topic. The map has no store, so it has no
        cache either. The processor has one goal, which is measured with one number of keys and without a cache; so do
        threads.
        """
        cells = [
            Cell(application, keys, cache)
            for keys in self.keys
            for application in self.applications
            for cache in self._caches(application)
            if application != PROCESSOR or keys == TYPICAL_KEYS
        ]
        if (typical := Cell(COUNT, TYPICAL_KEYS, NO_CACHE)) in cells:
            cells.insert(cells.index(typical) + 1, replace(typical, compares_threads=True))
        return cells

    def _caches(self, application: str) -> Sequence[str]:
        return (NO_CACHE,) if application in (MAP, PROCESSOR) else self.caches


QUICK = Choice((COUNT,), (1_000,), (NO_CACHE,))
