"""A task's right to commit offsets of its input."""

import pytest

from assignor.types import TaskId, TopicPartition
from streams_runtime.logs.base import NewTopic
from streams_runtime.logs.log_errors import LogTimeout
from streams_runtime.tasks.input_offsets import InputClaim
from streams_runtime.tasks.record_collector import StreamsProducer
from tests.known import known
from tests.streams_runtime.tasks.watched_log import WatchedLog

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def claim_of() -> tuple[InputClaim, WatchedLog]:
    log = WatchedLog()
    log.create_topics([NewTopic("a", 1), NewTopic("b", 1)])
    return InputClaim(TaskId(0, 0), StreamsProducer(log), "app"), log


def test_should_claim_again_only_after_a_release_or_for_other_partitions() -> None:
    claim, log = claim_of()
    for _ in range(2):
        claim.take_if_needed(frozenset({A}))
    claim.take_if_needed(frozenset({A, B}))
    both = claim.newest
    assert known(both).epochs.keys() == {A, B}
    claim.release()
    claim.release()
    claim.take_if_needed(frozenset({A, B}))
    assert claim.newest is not both
    assert [call for call in log.calls if call in ("claim", "release")] == ["claim", "claim", "release", "claim"]


def test_should_try_to_claim_again_when_the_log_was_away_after_a_release() -> None:
    claim, log = claim_of()
    claim.take_if_needed(frozenset({A}))
    released = claim.newest
    claim.release()
    log.fail["claim"] = LogTimeout("away")
    with pytest.raises(LogTimeout):
        claim.take_if_needed(frozenset({A}))
    log.fail.clear()
    claim.take_if_needed(frozenset({A}))
    assert claim.newest is not released
