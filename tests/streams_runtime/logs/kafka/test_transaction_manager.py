"""Answers of a transaction's coordinator that no test can make a real broker give at will.

The moment in which a 4.3.1 broker refuses a commit without a reason lasts microseconds; in `test_claims_in_trouble.py`
it came once in some thirty runs. What the broker said then is given here by a mock.
"""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_client.settings.client_settings import client_settings
from streams_runtime.logs.kafka.leadership import CoordinatorOf, Leadership
from streams_runtime.logs.kafka.transaction_manager import TransactionManager
from streams_runtime.logs.log_errors import LogTimeout, ProducerFenced

UNKNOWN_SERVER_ERROR, NONE, INVALID_PRODUCER_EPOCH, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS = -1, 0, 47, 16, 51


class MockCoordinator(Leadership):
    """Answers with these error codes, the last one from then on."""

    def __init__(self, *codes: int, timeout_ms: int = 300, backoff_ms: int = 1) -> None:
        configs = {"default.api.timeout.ms": str(timeout_ms), "retry.backoff.ms": str(backoff_ms)}
        super().__init__(client_settings("127.0.0.1:9", {**configs, "retry.backoff.max.ms": "3600000"}))
        self.codes = list(codes)
        self.forgotten = 0

    def forget(self) -> None:
        self.forgotten += 1

    async def ask_coordinator(self, kind: CoordinatorOf, key: str, request: Any) -> Any:
        code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
        return SimpleNamespace(error_code=code)


async def committed_by(coordinator: MockCoordinator) -> None:
    transactions = TransactionManager(coordinator, "words-1", 10_000)
    transactions.producer_id, transactions.epoch = 26_000, 8
    try:
        await transactions.end(commit=True)
    finally:
        await coordinator.close()


def test_should_know_that_it_was_fenced_when_the_broker_could_not_tell_at_first() -> None:
    with pytest.raises(ProducerFenced, match="was replaced by a newer one"):
        asyncio.run(committed_by(MockCoordinator(UNKNOWN_SERVER_ERROR, INVALID_PRODUCER_EPOCH)))


def test_should_have_committed_when_the_broker_says_so_at_the_second_try() -> None:
    coordinator = MockCoordinator(UNKNOWN_SERVER_ERROR, NONE)
    asyncio.run(committed_by(coordinator))
    assert coordinator.codes == [NONE]


def test_should_give_up_in_time_when_the_broker_never_says_more() -> None:
    with pytest.raises(LogTimeout, match=r"ending the transaction: no answer within 0\.3 s.*UNKNOWN_SERVER_ERROR"):
        asyncio.run(committed_by(MockCoordinator(UNKNOWN_SERVER_ERROR)))


@pytest.mark.parametrize(("code", "tries", "forgotten"), [(CONCURRENT_TRANSACTIONS, 30, 0), (NOT_COORDINATOR, 3, 3)])
def test_should_look_up_nothing_while_the_right_broker_writes_markers(code: int, tries: int, forgotten: int) -> None:
    coordinator = MockCoordinator(*[code] * tries, NONE, timeout_ms=60_000)
    asyncio.run(committed_by(coordinator))
    assert (coordinator.codes, coordinator.forgotten) == ([NONE], forgotten)


def test_should_ask_again_without_a_long_pause_while_markers_are_written() -> None:
    coordinator = MockCoordinator(*[CONCURRENT_TRANSACTIONS] * 5, NONE, backoff_ms=3_600_000)
    asyncio.run(committed_by(coordinator))
    assert coordinator.codes == [NONE]
