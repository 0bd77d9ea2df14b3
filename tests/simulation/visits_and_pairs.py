"""The application of some simulated groups: sessions of words, and a left join of two streams of words, by the DSL.

Each word comes from the left or the right, out of order, but never so much that it is late. So the results depend on
which words came in, and not on their order. The rules are checked after each commit on what is in the log:
- A session store and its output hold the sessions of exactly those words that the group has committed.
- The join has forwarded each pair of these words once.
- Each word from the left without a partner waits in the store of the join, or was forwarded without a partner, once.
- Under at-least-once, there may be more of all that.
The stores are the real ones with the real transaction buffers. Only RocksDB below them is simulated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from assignor.types import TopicPartition
from streams_runtime.dsl.streams_builder import StreamsBuilder
from streams_runtime.dsl.windows import JoinWindows, SessionWindowedSerde, SessionWindows
from streams_runtime.instance.application import Application
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import LongSerde, StringSerde
from streams_runtime.state_stores.builders import SerdesStoreBuilder
from streams_runtime.state_stores.list_value_store import LeftOrRightValuesSerde, TimestampedKeyAndJoinSideSerde
from streams_runtime.state_stores.session_keys import END, session_bounds
from streams_runtime.state_stores.window_keys import SEGMENT_BYTES, START
from tests.simulation.cluster import (
    COUNTS_ARE_EXACT,
    OFFSETS_RISE,
    PARTITIONS,
    WORDS,
    BuiltOnce,
    SimulatedCluster,
    StoreKind,
    application,
)
from tests.simulation.log import Row
from tests.simulation.simulated_store import OnSimulatedDisk
from tests.simulation.timeline import Timeline
from tests.simulation.windows import Windows

SESSIONS, SESSION_TOTALS, PAIRS, JOIN = "sessions", "session-totals", "pairs", "join"
LEFT_STORE, RIGHT_STORE, UNJOINED = (
    f"{JOIN}-this-join-store",
    f"{JOIN}-outer-other-join-store",
    f"{JOIN}-left-shared-join-store",
)
GAP_MS, BEFORE_MS, AFTER_MS, GRACE_MS = 2_000, 3_000, 1_500, 5_000
DISORDER_MS = 1_400
"""Less than AFTER_MS, because a join forwards a word at once without a partner if its window is before stream time."""

_LEFT, _RIGHT, _ALONE = "l", "r", "alone"
_TEXT, _LONG = StringSerde(), LongSerde()
_WINDOWS = JoinWindows(BEFORE_MS, AFTER_MS, grace_ms=GRACE_MS)
_RETENTION_MS = {
    SESSIONS: GAP_MS + GRACE_MS,
    LEFT_STORE: BEFORE_MS + AFTER_MS + GRACE_MS,
    RIGHT_STORE: BEFORE_MS + AFTER_MS + GRACE_MS,
}
_TIME = {SESSIONS: END, LEFT_STORE: START, RIGHT_STORE: START}
"""The slice of a changelog key with the time by which an entry expires."""

_UNJOINED_KEYS, _UNJOINED_VALUES = TimestampedKeyAndJoinSideSerde(_TEXT), LeftOrRightValuesSerde(_TEXT, _TEXT)

Word = tuple[int, str]
"""The timestamp and the value of a word."""


def is_left(_key: str, value: str) -> bool:
    return value.startswith(_LEFT)


def pair(left: str, right: str | None) -> str:
    return f"{left}+{right or _ALONE}"


@lru_cache
def visits_and_pairs(group_id: str, *, exactly_once: bool) -> Application:
    builder = StreamsBuilder()
    words = builder.stream(WORDS, _TEXT, _TEXT)
    visits = words.group_by_key().windowed_by(SessionWindows(GAP_MS, grace_ms=GRACE_MS)).count(store=SESSIONS)
    visits.to_stream().to(SESSION_TOTALS, key_serde=SessionWindowedSerde(_TEXT), value_serde=_LONG)
    pairs = words.filter(is_left).left_join(words.filter_not(is_left), pair, _WINDOWS, store=JOIN)
    pairs.to(PAIRS, key_serde=_TEXT, value_serde=_TEXT)
    topology = _on_simulated_disks(builder.build())
    return application(group_id, topology, StoreKind.WINDOWED, exactly_once=exactly_once)


def _on_simulated_disks(topology: Topology) -> Topology:
    simulated = BuiltOnce()
    simulated.optimizations = topology.optimizations
    simulated.builder = topology.builder.with_suppliers(
        lambda supplier: OnSimulatedDisk(supplier) if isinstance(supplier, SerdesStoreBuilder) else supplier
    )
    return simulated


class _Reader:
    """Reads the records of a topic once, in the order of each partition."""

    def __init__(self, cluster: SimulatedCluster, topic: str) -> None:
        self._log = cluster.log
        self._positions = {TopicPartition(topic, number): 0 for number in range(PARTITIONS)}
        self._waiting: dict[TopicPartition, list[tuple[Any, Any, int]]] = {each: [] for each in self._positions}

    def read(self, ends: Mapping[TopicPartition, int] | None = None) -> Iterator[tuple[Any, Any, int]]:
        """`ends`: offsets up to which, and without which, each partition is read; None for all."""
        for partition, position in self._positions.items():
            waiting = self._waiting[partition]
            for batch in self._log.batches_from(partition, position + len(waiting)):
                waiting += zip(batch.keys, batch.values, batch.timestamps_ms, strict=True)
            end = self._log.end_of(partition) if ends is None else ends[partition]
            assert end >= position, f"{OFFSETS_RISE}: of {partition} it was {position}, and is {end}"
            yield from waiting[: end - position]
            del waiting[: end - position]
            self._positions[partition] = end


class _Words:
    """Words by their text, and the results that they have to have."""

    def __init__(self) -> None:
        self._words: dict[str, list[Word]] = {}

    def add(self, key: bytes, value: bytes, timestamp_ms: int) -> str:
        text = key.decode()
        self._words.setdefault(text, []).append((timestamp_ms, value.decode()))
        return text

    def sessions(self, text: str) -> dict[tuple[int, int], int]:
        """The number of words by start and end."""
        found: list[tuple[int, int, int]] = []
        for timestamp_ms, _ in sorted(self._words.get(text, ())):
            if found and timestamp_ms - found[-1][1] <= GAP_MS:
                start_ms, _, count = found.pop()
                found.append((start_ms, timestamp_ms, count + 1))
            else:
                found.append((timestamp_ms, timestamp_ms, 1))
        return {(start_ms, end_ms): count for start_ms, end_ms, count in found}

    def pairs(self, text: str) -> tuple[Counter[str], Counter[Word]]:
        """The pairs, and the words from the left without a partner."""
        words = self._words.get(text, ())
        right = [each for each in words if each[1].startswith(_RIGHT)]
        pairs, alone = Counter[str](), Counter[Word]()
        for timestamp_ms, value in words:
            if value.startswith(_LEFT):
                partners = [
                    other for at_ms, other in right if timestamp_ms - BEFORE_MS <= at_ms <= timestamp_ms + AFTER_MS
                ]
                pairs.update(pair(value, other) for other in partners)
                if not partners:
                    alone[timestamp_ms, value] += 1
        return pairs, alone

    def texts(self) -> list[str]:
        return sorted(self._words)


class _Sessions:
    """The sessions in a changelog or an output, by their words."""

    def __init__(self, cluster: SimulatedCluster, topic: str) -> None:
        self._reader = _Reader(cluster, topic)
        self.topic = topic
        self.counts: dict[str, dict[tuple[int, int], int]] = {}

    def read(self) -> set[str]:
        """Returns the words whose sessions have changed."""
        touched = set()
        for key, value, _ in self._reader.read():
            word, start_ms, end_ms = session_bounds(key)
            text = word.decode()
            touched.add(text)
            counts = self.counts.setdefault(text, {})
            if value is None:
                counts.pop((start_ms, end_ms), None)
            else:
                counts[start_ms, end_ms] = _LONG.deserialize(value)
        return touched


class VisitsAndPairs(SimulatedCluster):
    def __init__(self, timeline: Timeline, group_id: str, windows: Windows, *, exactly_once: bool) -> None:
        stores, outputs = (SESSIONS, LEFT_STORE, RIGHT_STORE, UNJOINED), (SESSION_TOTALS, PAIRS)
        running = visits_and_pairs(group_id, exactly_once=exactly_once)
        super().__init__(timeline, running, windows, StoreKind.WINDOWED, stores, outputs)
        self._sides = timeline.chance(f"sides of {group_id}")
        self._number = 0
        self._committed, self._produced = _Words(), _Words()
        self._committed_input, self._whole_input = _Reader(self, WORDS), _Reader(self, WORDS)
        self._sessions = [_Sessions(self, topic) for topic in (self.changelogs[SESSIONS], SESSION_TOTALS)]
        self._pairs_output = _Reader(self, PAIRS)
        self._unjoined_changelog = _Reader(self, self.changelogs[UNJOINED])
        self._pairs: dict[str, Counter[str]] = {}
        self._alone: dict[str, Counter[Word]] = {}  # forwarded without a partner
        self._unjoined: dict[bytes, Counter[Word]] = {}  # by the key in the store

    def _rows(self, words: Sequence[bytes], now_ms: int) -> list[Row]:
        rows = []
        for word in words:
            self._number += 1
            side = self._sides.choice((_LEFT, _RIGHT))
            rows.append((word, f"{side}{self._number}".encode(), max(0, now_ms - self._sides.randrange(DISORDER_MS))))
        return rows

    # --- results

    def expected_counts(self) -> dict[Any, int]:
        for row in self._whole_input.read():
            self._produced.add(*row)
        return {
            (text, *bounds): count
            for text in self._produced.texts()
            for bounds, count in self._produced.sessions(text).items()
        }

    def committed_counts(self) -> dict[Any, int]:
        self._sessions[0].read()
        counts = self._sessions[0].counts
        return {(text, *bounds): count for text, of_text in counts.items() for bounds, count in of_text.items()}

    def _check_results(self, committed: Mapping[TopicPartition, int]) -> None:
        touched = {self._committed.add(*row) for row in self._committed_input.read(committed)}
        for written in self._sessions:
            touched |= written.read()
        touched |= self._read_pairs() | self._read_unjoined()
        waiting: dict[str, Counter[Word]] = {}
        for key, words in self._unjoined.items():
            text = _UNJOINED_KEYS.deserialize(key).key
            waiting[text] = waiting.get(text, Counter()) + words
        for text in sorted(touched):
            self._check_sessions(text)
            self._check_pairs(text, waiting.get(text, Counter()))

    def _check_sessions(self, text: str) -> None:
        expected = self._committed.sessions(text)
        for written in self._sessions:
            counts = written.counts.get(text, {})
            is_right = counts == expected
            if not self.exactly_once:
                is_right = all(
                    any(start <= first and last <= end and each >= count for (start, end), each in counts.items())
                    for (first, last), count in expected.items()
                )
            assert is_right, (
                f"{COUNTS_ARE_EXACT}: {written.topic} of group {self.group_id} has {counts} for {text}, and the "
                f"committed words have the sessions {expected}"
            )

    def _check_pairs(self, text: str, waiting: Counter[Word]) -> None:
        pairs, alone = self._committed.pairs(text)
        written = self._pairs.get(text, Counter())
        left_over = waiting + self._alone.get(text, Counter())
        # Under at-least-once, a word may have got its partner before both were committed.
        is_right = (pairs, alone) == (written, left_over) if self.exactly_once else not pairs - written
        assert is_right, (
            f"{COUNTS_ARE_EXACT}: the join of group {self.group_id} for {text}: pairs {dict(written)} instead of "
            f"{dict(pairs)}; alone {dict(left_over)} instead of {dict(alone)}"
        )

    def _read_pairs(self) -> set[str]:
        touched = set()
        for key, value, timestamp_ms in self._pairs_output.read():
            text, joined = key.decode(), value.decode()
            touched.add(text)
            left, _, right = joined.partition("+")
            if right == _ALONE:
                self._alone.setdefault(text, Counter())[timestamp_ms, left] += 1
            else:
                self._pairs.setdefault(text, Counter())[joined] += 1
        return touched

    def _read_unjoined(self) -> set[str]:
        touched = set()
        for key, value, _ in self._unjoined_changelog.read():
            stored = _UNJOINED_KEYS.deserialize(key)
            touched.add(stored.key)
            values = [] if value is None else _UNJOINED_VALUES.deserialize(value)
            self._unjoined[key] = Counter((stored.timestamp_ms, each.value) for each in values)
            if not values:
                del self._unjoined[key]
        return touched

    # --- stores

    def _under_changelog_keys(self, store: str, held: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
        if store == UNJOINED:
            return held
        return {key[SEGMENT_BYTES:]: value for key, value in held.items()}

    def _wrong_keys(
        self, store: str, held: Mapping[bytes, bytes], written: Mapping[bytes, bytes], *, exactly: bool
    ) -> set[bytes]:
        """A store drops what has expired, and its changelog has it still. Under at-least-once, a store may have any of
        the changes after its offset.
        """
        if not exactly:
            return set()
        wrong = {key for key, value in held.items() if written.get(key) != value}
        missing = written.keys() - held.keys()
        if missing and store in _TIME:
            at = _TIME[store]
            newest_ms = max(int.from_bytes(key[at], "big") for key in written)
            live_from_ms = newest_ms - _RETENTION_MS[store]
            missing = {key for key in missing if int.from_bytes(key[at], "big") > live_from_ms}
        return wrong | missing
