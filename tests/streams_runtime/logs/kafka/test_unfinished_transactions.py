"""Which records a consumer with `whole_transactions` gives of fetched bytes, and which it keeps for later."""

import random
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.types import TopicPartition
from streams_runtime.logs.kafka.completed_fetch import CompletedFetch
from streams_runtime.logs.kafka.consumer import _take_from
from streams_runtime.logs.kafka.fetching import FetchedPartition
from tests.kafka_client.record_batches.batches import TRANSACTIONAL, batch_of, marker

P = TopicPartition("topic", 3)
OWN, OTHER = 1, 2
FAR = 1_000
"""A high watermark beyond all that is read."""


class Reader:
    """A partition of a consumer, which is given one response after the other."""

    def __init__(self) -> None:
        self.one = FetchedPartition(whole_transactions=True)
        self.one.position = 0

    def take(
        self,
        *batches: bytes,
        high_watermark: int = FAR,
        aborted: Sequence[tuple[int, int]] = (),
        most: int = 1,
    ) -> list[list[int]]:
        """The offsets that each poll gives of one more response."""
        self.one.completed.append(
            CompletedFetch(
                P,
                b"".join(batches),
                self.one.fetch_offset(),
                aborted,
                high_watermark=high_watermark,
                transaction=self.one.transaction,
            )
        )
        polls = []
        while taken := _take_from(self.one, most)[0]:
            polls.append([offset for batch in taken for offset in batch.offsets])
        return polls

    @property
    def offsets(self) -> tuple[int | None, int]:
        return self.one.position, self.one.fetch_offset()


def data(base: int, producer: int | None = OWN, *, epoch: int = 0, count: int = 2) -> bytes:
    rows = [(at, 0, b"k", b"v", ()) for at in range(count)]
    if producer is None:
        return batch_of(rows, base_offset=base)
    return batch_of(rows, base_offset=base, attributes=TRANSACTIONAL, producer_id=producer, producer_epoch=epoch)


def test_should_keep_a_transaction_until_a_later_response_ends_it() -> None:
    reader = Reader()
    assert reader.take(data(0), marker(OWN, 2, commits=True), data(3)) == [[0, 1]]
    assert reader.offsets == (3, 5)
    assert reader.take(data(5)) == []
    assert reader.offsets == (3, 7)
    assert reader.take(data(7), marker(OWN, 9, commits=True), data(10, None), data(12)) == [
        [3, 4, 5, 6, 7, 8],
        [10, 11],
    ]
    assert reader.offsets == (12, 14)


def test_should_forget_what_it_keeps_where_the_reader_goes_elsewhere() -> None:
    reader = Reader()
    assert reader.take(data(0)) == []
    reader.one.drop()
    assert reader.offsets == (0, 0)
    assert reader.take(marker(OWN, 2, commits=True)) == []
    assert reader.offsets == (3, 3)


@pytest.mark.parametrize(
    ("after", "given"),
    [
        (data(2, None), [[0, 1, 2, 3]]),
        (data(2, OTHER), [[0, 1]]),
        (data(2, OWN, epoch=1), [[0, 1]]),
    ],
    ids=["no transaction", "another producer", "another epoch"],
)
def test_should_end_a_transaction_without_a_marker_before_records_of_others(
    after: bytes, given: list[list[int]]
) -> None:
    assert Reader().take(data(0), after) == given


def test_should_go_on_with_a_transaction_after_what_a_fenced_producer_left() -> None:
    reader = Reader()
    left = data(0, OTHER), data(2), data(4, OTHER), marker(OTHER, 6, commits=False), data(7)
    assert reader.take(*left, aborted=[(OTHER, 0)]) == []
    assert reader.offsets == (2, 9)
    assert reader.take(data(9, OTHER), marker(OTHER, 11, commits=False), aborted=[(OTHER, 9)]) == []
    assert reader.offsets == (2, 12)
    assert reader.take(marker(OWN, 12, commits=True)) == [[2, 3, 7, 8]]
    assert reader.offsets == (13, 13)


def test_should_end_a_transaction_without_a_marker_at_the_high_watermark_of_the_next_response() -> None:
    reader = Reader()
    assert reader.take(data(0), high_watermark=2) == []  # it may be older than the records
    assert reader.take(data(2), high_watermark=6) == []
    assert reader.take(data(4), high_watermark=8) == [[0, 1, 2, 3, 4, 5]]
    assert reader.take(data(6), high_watermark=9) == []
    assert reader.take(high_watermark=8) == []  # as a new leader may say for a moment
    assert reader.take(data(8, count=1), high_watermark=9) == [[6, 7, 8]]
    assert reader.offsets == (9, 9)


class History(NamedTuple):
    """Batches with their first offsets; the aborted transactions; the last offsets of transactions and of batches
    without one; the offsets of all visible records.
    """

    batches: list[tuple[int, bytes]]
    aborted: list[tuple[int, int]]
    ends: set[int]
    visible: list[int]
    end: int


def history(chance: random.Random) -> History:
    """Producers commit one after the other, while others are fenced. Some markers are missing."""
    batches: list[tuple[int, bytes]] = []
    aborted: list[tuple[int, int]] = []
    ends: set[int] = set()
    visible: list[int] = []
    at, fenced = 0, 100
    for _ in range(chance.randint(1, 8)):
        producer = chance.choice([None, OWN, OTHER])
        for _ in range(1 if producer is None else chance.randint(1, 4)):
            if chance.random() < 0.3:
                fenced += 1
                aborted.append((fenced, at))
                batches += [(at, data(at, fenced)), (at + 2, marker(fenced, at + 2, commits=False))]
                at += 3
            count = chance.randint(1, 3)
            batches.append((at, data(at, producer, count=count)))
            visible += range(at, at + count)
            at += count
        ends.add(at - 1)
        if producer is not None and chance.random() < 0.8:
            batches.append((at, marker(producer, at, commits=True)))
            at += 1
    return History(batches, aborted, ends, visible, at)


@given(st.randoms(use_true_random=False))
def test_should_give_all_records_and_end_each_poll_with_a_transaction(chance: random.Random) -> None:
    written = history(chance)
    reader, polls, left = Reader(), [], list(written.batches)
    while left:
        count = chance.randint(1, 5)
        response, left = left[:count], left[count:]
        polls += reader.take(
            *(batch for _, batch in response),
            high_watermark=written.end,
            aborted=[each for each in written.aborted if response[0][0] <= each[1] <= response[-1][0]],
            most=chance.randint(1, 6),
        )
        before = [offset for offset in written.visible if offset < (reader.one.position or 0)]
        assert not before or before[-1] in written.ends
    polls += reader.take(high_watermark=written.end)
    assert [offset for poll in polls for offset in poll] == written.visible
    assert {poll[-1] for poll in polls} <= written.ends
    assert reader.offsets == (written.end, written.end)
