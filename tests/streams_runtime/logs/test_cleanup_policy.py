"""Which records compaction keeps, compared with the rule in one line of Python."""

from hypothesis import given
from hypothesis import strategies as st

from assignor.types import TopicPartition
from streams_runtime.logs.base import BATCH_BYTES, BATCH_RECORDS, RecordBatch
from streams_runtime.logs.cleanup_policy import BatchSummary, LatestOffsets, cleaned, head_start
from streams_runtime.logs.topic_configs import TopicConfigs
from tests.streams_runtime.logs.reading_and_writing import Read, records_of

P = TopicPartition("changelog", 0)
CONFIGS = TopicConfigs(compacts=True, deletes=False, delete_retention_ms=100)
Pairs = list[tuple[bytes, bytes | None]]


Batch = tuple[BatchSummary, RecordBatch]


def stored(batches: list[Pairs], horizons: list[int | None] | None = None) -> list[Batch]:
    at = 0
    made = []
    for index, pairs in enumerate(batches):
        keys, values = [key for key, _ in pairs], [value for _, value in pairs]
        records = RecordBatch(P, range(at, at + len(pairs)), [0] * len(pairs), keys, values)
        made.append(summarised(records, None if horizons is None else horizons[index]))
        at += len(pairs)
    return made


def summarised(records: RecordBatch, horizon_ms: int | None) -> Batch:
    size = sum(len(octets or b"") for octets in [*records.keys, *records.values])
    return BatchSummary(records.offsets[0], records.offsets[-1], 0, size, horizon_ms), records


def clean(batches: list[Batch], now_ms: int = 0) -> list[Batch]:
    latest = LatestOffsets()
    for _, records in batches:
        latest.add(records)
    left = list(batches)
    for sources, kept, horizon_ms in cleaned(batches, latest.offsets, CONFIGS, now_ms):
        at = [summary for summary, _ in left].index(sources[0])
        assert [summary for summary, _ in left[at : at + len(sources)]] == sources
        left[at : at + len(sources)] = [] if kept is None else [summarised(kept, horizon_ms)]
    return left


def all_records(batches: list[Batch]) -> list[Read]:
    return records_of(records for _, records in batches)


def counts_and_horizons(batches: list[Batch]) -> list[tuple[int, int | None]]:
    return [(len(records), summary.delete_horizon_ms) for summary, records in batches]


pairs = st.tuples(st.sampled_from([b"a", b"b", b"c", b"d"]), st.none() | st.binary(max_size=3))


@given(st.lists(st.lists(pairs, min_size=1, max_size=6), min_size=1, max_size=12))
def test_should_keep_exactly_the_latest_record_of_each_key(batches: list[Pairs]) -> None:
    before = stored(batches)
    records = all_records(before)
    last_of_key = {record.key: record.offset for record in records}
    after = clean(before)
    assert all_records(after) == [record for record in records if last_of_key[record.key or b""] == record.offset]
    for summary, batch in after:
        assert (summary.delete_horizon_ms is None) == (None not in batch.values)


def test_should_change_nothing_when_nothing_is_superseded_and_no_neighbours_are_small() -> None:
    large = stored([[(b"%d" % number, bytes(BATCH_BYTES // 2 + 1))] for number in range(4)])
    assert list(cleaned(large, {}, CONFIGS, 0)) == []


def test_should_join_small_neighbours_up_to_the_size_of_a_batch() -> None:
    quarter = BATCH_BYTES // 4
    by_size = clean(stored([[(b"%d" % number, bytes(quarter - 1))] for number in range(9)]))
    assert [len(records) for _, records in by_size] == [4, 4, 1]
    half = BATCH_RECORDS // 2
    by_count = clean(stored([[(b"%d-%d" % (number, index), b"") for index in range(half)] for number in range(5)]))
    assert [len(records) for _, records in by_count] == [2 * half, 2 * half, half]


def test_should_not_join_tombstones_that_may_go_at_different_times() -> None:
    batches = stored([[(b"a", None)], [(b"b", b"1")], [(b"c", None)], [(b"d", None)]], [50, None, 50, 60])
    after = clean(batches, now_ms=49)
    assert counts_and_horizons(after) == [(3, 50), (1, 60)]
    after = clean(batches, now_ms=50)
    assert [record.key for record in all_records(after)] == [b"b", b"d"]
    assert counts_and_horizons(after) == [(2, 60)]


def test_should_start_the_head_where_the_newest_batches_no_longer_fit_into_a_segment() -> None:
    dirty = [BatchSummary(offset, offset + 9, offset, 100) for offset in range(0, 50, 10)]
    assert head_start(dirty, TopicConfigs(segment_bytes=250), 0, 50) == 30
    assert head_start(dirty, TopicConfigs(segment_bytes=300), 0, 50) == 20
    assert head_start(dirty, TopicConfigs(segment_bytes=1), 0, 50) == 40
    assert head_start(dirty, TopicConfigs(segment_bytes=1_000), 0, 50) == 0
    assert head_start([], TopicConfigs(), 0, 50) == 50
    assert head_start(dirty, TopicConfigs(segment_bytes=1, min_compaction_lag_ms=5), 25, 50) == 30
