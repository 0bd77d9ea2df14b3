"""Group offsets: only the newest claim of a partition moves them."""

import pytest

from assignor.types import TopicPartition
from streams_runtime.logs.base import Claim, Log, OffsetAndMetadata
from streams_runtime.logs.log_errors import CommitFenced, LogError
from tests.streams_runtime.logs.reading_and_writing import T0, T1, offsets, read_from, values_of


def test_should_commit_offsets_of_several_claims_together(log: Log) -> None:
    first, second = log.claim("group", [T0]), log.claim("group", [T1])
    producer = log.producer()
    producer.commit_offsets([(first, {T0: OffsetAndMetadata(3, "a")}), (second, {T1: OffsetAndMetadata(4)})])
    assert log.committed_offsets("group", [T1, T0]) == {T1: OffsetAndMetadata(4), T0: OffsetAndMetadata(3, "a")}
    producer.commit_offsets(offsets(first, T0, 2))
    assert log.committed_offsets("group", [T0, T1]) == {T0: OffsetAndMetadata(2), T1: OffsetAndMetadata(4)}


def test_should_leave_out_partitions_without_a_committed_offset(log: Log) -> None:
    claim = log.claim("group", [T0, T1])
    log.producer().commit_offsets(offsets(claim, T0, 0))
    assert log.committed_offsets("group", [T0, T1, TopicPartition("no-topic", 0)]) == {T0: OffsetAndMetadata(0)}
    assert log.committed_offsets("another", [T0]) == {}
    assert log.committed_offsets("group", []) == {}


def test_should_fence_the_claim_before(log: Log) -> None:
    old = log.claim("group", [T0])
    producer = log.producer()
    producer.commit_offsets(offsets(old, T0, 1))
    new = log.claim("group", [T0])
    with pytest.raises(CommitFenced, match="group group: topic-0 was claimed with epoch 1 and is now with epoch 2"):
        producer.commit_offsets(offsets(old, T0, 2))
    assert log.committed_offsets("group", [T0]) == {T0: OffsetAndMetadata(1)}
    with pytest.raises(CommitFenced):
        producer.send(T0, b"k", b"v", 0)
    log.producer().commit_offsets(offsets(new, T0, 3))
    assert log.committed_offsets("group", [T0]) == {T0: OffsetAndMetadata(3)}


def test_should_commit_none_of_several_claims_when_one_of_them_is_fenced(log: Log) -> None:
    kept, lost = log.claim("group", [T0]), log.claim("group", [T1])
    log.claim("group", [T1])
    with pytest.raises(CommitFenced):
        log.producer().commit_offsets([(kept, {T0: OffsetAndMetadata(1)}), (lost, {T1: OffsetAndMetadata(1)})])
    assert log.committed_offsets("group", [T0, T1]) == {}


@pytest.mark.parametrize("moved", [{T0: OffsetAndMetadata(1)}, {}], ids=["another partition moved", "none moved"])
def test_should_fence_a_claim_that_lost_a_partition(log: Log, moved: dict[TopicPartition, OffsetAndMetadata]) -> None:
    claim = log.claim("group", [T0, T1])
    producer = log.producer("id")
    producer.begin_transaction()
    producer.send(T0, b"k", b"zombie", 0)
    log.claim("group", [T1])
    with pytest.raises(CommitFenced, match="topic-1 was claimed with epoch 1 and is now with epoch 2"):
        producer.commit_transaction([(claim, moved)])
    assert read_from(log, T0) == []
    assert log.committed_offsets("group", [T0, T1]) == {}


def test_should_not_fence_claims_of_other_groups_and_partitions(log: Log) -> None:
    claim = log.claim("group", [T0])
    log.claim("another", [T0])
    log.claim("group", [T1])
    log.producer().commit_offsets(offsets(claim, T0, 5))
    assert log.committed_offsets("group", [T0]) == {T0: OffsetAndMetadata(5)}


def test_should_keep_committed_offsets_when_a_partition_is_claimed_anew(log: Log) -> None:
    log.producer().commit_offsets(offsets(log.claim("group", [T0]), T0, 5, "text"))
    claim = log.claim("group", [T0])
    assert claim == Claim("group", {T0: claim.epochs[T0]})
    assert log.committed_offsets("group", [T0]) == {T0: OffsetAndMetadata(5, "text")}


def test_should_write_pending_records_with_the_offsets_or_not_at_all(log: Log) -> None:
    claim = log.claim("group", [T0])
    producer = log.producer()
    producer.send(T1, b"k", b"1", 0)
    producer.commit_offsets(offsets(claim, T0, 1))
    assert values_of(log, T1) == [(0, b"1")]


def test_should_refuse_offsets_outside_of_the_claim_and_negative_ones(log: Log) -> None:
    claim = log.claim("group", [T0])
    producer = log.producer()
    with pytest.raises(LogError, match="offset of topic-1 is not covered by the claim of group group"):
        producer.commit_offsets(offsets(claim, T1, 1))
    with pytest.raises(LogError, match="offset -1 of topic-0 is negative"):
        producer.commit_offsets(offsets(claim, T0, -1))
    assert log.committed_offsets("group", [T0, T1]) == {}


def test_should_go_on_with_a_claim_that_was_released_until_another_one_is_made(log: Log) -> None:
    claim = log.claim("group", [T0], "id")
    log.release(claim)
    log.producer().commit_offsets(offsets(claim, T0, 1))
    log.claim("group", [T0], "another id")
    log.release(claim)
    with pytest.raises(CommitFenced):
        log.producer().commit_offsets(offsets(claim, T0, 2))
    assert log.committed_offsets("group", [T0]) == {T0: OffsetAndMetadata(1)}


def test_should_leave_the_producer_of_a_released_claim_alone(log: Log) -> None:
    released = log.producer("id")
    log.release(log.claim("group", [T0], "id"))
    released.begin_transaction()
    released.send(T1, b"k", b"of another task", 0)
    log.claim("group", [T0], "another id")
    released.commit_transaction()
    assert [value for _, value in values_of(log, T1)] == [b"of another task"]


def test_should_claim_nothing_when_asked_for_nothing(log: Log) -> None:
    assert log.claim("group", []) == Claim("group", {})
