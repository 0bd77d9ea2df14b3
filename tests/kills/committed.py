"""The committed records of changelogs, and the content that a store has to have at an offset."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from assignor.types import TopicPartition
from streams_runtime.logs.base import IsolationLevel, Log
from streams_runtime.serdes import LONG
from streams_runtime.state_stores.window_keys import SUFFIX_BYTES
from tests.kills.counting import PLAIN, STORES, WINDOWED
from tests.kills.store_files import StoreOnDisk, StoreState
from tests.waiting import wait_until

WAITS_S = 60.0
_POLL_MS, _POLL_RECORDS = 100, 50_000
_TIMESTAMP_BYTES = 8


class CommittedRecords:
    """Follows changelogs from their beginning. `transactions`: their records were written in transactions."""

    def __init__(self, log: Log, changelogs: Iterable[TopicPartition], *, transactions: bool = False) -> None:
        self._log = log
        self.changelogs = tuple(changelogs)
        self._consumer = log.consumer(IsolationLevel.READ_COMMITTED, whole_transactions=transactions)
        self._poll_records = 1 if transactions else _POLL_RECORDS  # so that a poll ends with the next transaction
        self._transaction_ends: dict[TopicPartition, set[int]] | None = (
            {each: set() for each in self.changelogs} if transactions else None
        )
        self._consumer.assign(self.changelogs)
        self._offsets: dict[TopicPartition, list[int]] = {each: [] for each in self.changelogs}
        self._records: dict[TopicPartition, list[tuple[bytes, bytes | None, int]]] = {
            each: [] for each in self.changelogs
        }
        for each in self.changelogs:
            self._consumer.seek(each, 0)

    def close(self) -> None:
        self._consumer.close()

    def read(self) -> dict[TopicPartition, int]:
        """Read all that is committed now. Returns the end of each changelog."""
        ends = dict(self._log.end_offsets(self.changelogs, IsolationLevel.READ_COMMITTED))
        while any((self._consumer.position(each) or 0) < ends[each] for each in self.changelogs):
            batches = self._consumer.poll(_POLL_MS, self._poll_records)
            if self._transaction_ends is not None:
                for partition, last in {batch.partition: batch.offsets[-1] for batch in batches}.items():
                    self._transaction_ends[partition].add(last)
            for batch in batches:
                self._offsets[batch.partition] += batch.offsets
                self._records[batch.partition] += zip(batch.keys, batch.values, batch.timestamps_ms, strict=True)  # type: ignore[arg-type]
        return ends

    def count_beyond(self, changelog: TopicPartition, offset: int | None) -> int:
        """The number of records after this offset; all for None."""
        return len(self._offsets[changelog]) - self._count_up_to(changelog, offset)

    def content(self, changelog: TopicPartition, offset: int | None) -> dict[bytes, bytes]:
        """The content of a store that is complete up to this offset, by the keys of its changelog. A value has the
        timestamp of its record before it, but for the plain store.
        """
        content: dict[bytes, bytes] = {}
        plain = f"-{PLAIN}-" in changelog.topic
        for key, value, timestamp_ms in self._records[changelog][: self._count_up_to(changelog, offset)]:
            if value is None:
                content.pop(key, None)
            else:
                content[key] = value if plain else timestamp_ms.to_bytes(_TIMESTAMP_BYTES, "big") + value
        return content

    def is_whole(self, changelog: TopicPartition, offset: int) -> bool:
        """False if the offset is inside a transaction."""
        count = self._count_up_to(changelog, offset)
        if self._transaction_ends is None or count == 0:
            return True
        return self._offsets[changelog][count - 1] in self._transaction_ends[changelog]

    def faults_of(self, store: StoreOnDisk, *, has_offset: bool = True, waits_s: float = WAITS_S) -> Iterator[str]:
        """The ways in which the store is not a committed prefix of its changelog, also after a power loss.
        `has_offset`: False if the offset of the store is deleted while its task runs.
        """
        for when, state in ("", store.now), ("after a power loss, ", store.after_power_loss):
            for fault in self._faults_of_state(store.changelog, state, has_offset, waits_s):
                yield when + fault

    def _faults_of_state(
        self, changelog: TopicPartition, state: StoreState, has_offset: bool, waits_s: float
    ) -> Iterator[str]:
        if state.offset is None:
            if state.content and has_offset:
                yield f"it has {len(state.content)} entries, but no offset"
            return
        offset = state.offset
        wait_until(lambda: self.read()[changelog] > offset, f"{changelog} is committed up to {offset}", waits_s)
        if not self.is_whole(changelog, offset):
            yield f"it has offset {offset}, which is inside a transaction"
        content = self.content(changelog, offset)
        if content != state.content:
            keys = {*content.items()} ^ {*state.content.items()}
            yield f"it has offset {offset}, but its content differs by {len(keys)} entries, such as {min(keys)}"

    def wrong_counts(self, expected: Mapping[bytes, int], *, exactly_once: bool) -> Iterator[str]:
        """The counts in the changelogs that are not those of the records, as far as they were read. Under
        at-least-once, a count may be too high.
        """
        for store in STORES:
            counts: Counter[bytes] = Counter()
            for changelog in self.changelogs:
                if f"-{store}-" not in changelog.topic:
                    continue
                for key, value in self.content(changelog, max(self._offsets[changelog], default=None)).items():
                    name = key[:-SUFFIX_BYTES] if store == WINDOWED else key
                    counts[name] += LONG.deserialize(value if store == PLAIN else value[_TIMESTAMP_BYTES:])
            for key, count in expected.items():
                if counts[key] < count or (counts[key] > count and exactly_once):
                    yield f"store {store}: {counts[key]} for {key!r}, not {count}"

    def _count_up_to(self, changelog: TopicPartition, offset: int | None) -> int:
        return 0 if offset is None else bisect_right(self._offsets[changelog], offset)
