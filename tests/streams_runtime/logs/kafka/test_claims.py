"""What a newcomer learns from the records of a claims topic, read in their order."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from assignor.types import TopicPartition
from streams_runtime.logs.base import Claim
from streams_runtime.logs.kafka.claims_topic import (
    ClaimOwner,
    ClaimsWriter,
    ClaimTable,
    GroupClaims,
    Settled,
    claim_records,
    settled_records,
)
from streams_runtime.logs.kafka.kafka_log import KafkaLog
from streams_runtime.logs.kafka.leadership import Leadership
from streams_runtime.logs.kafka.log_settings import log_settings
from streams_runtime.logs.log_errors import CommitFenced, LogError, LogTimeout

T = TypeVar("T")

PARTITION = TopicPartition("a-b", 0)
A, B, C = (ClaimOwner(name, number, 0) for number, name in enumerate("ABC"))


def claim_of(owner: ClaimOwner, known: ClaimTable) -> list[tuple[bytes, bytes]]:
    return claim_records([PARTITION], owner.transactional_id.lower(), owner, known)


def read(*records: tuple[bytes, bytes]) -> ClaimTable:
    table = ClaimTable()
    for key, value in records:
        table.apply(key, value)
    return table


def test_should_know_of_an_owner_whose_claim_raced_the_next_one() -> None:
    """B wrote its claim before it had read that of A, and died before it fenced anyone."""
    nothing = ClaimTable()
    table = read(*claim_of(A, nothing), *claim_of(B, nothing))

    assert table.not_fenced(PARTITION, C) == {A, B}
    assert (table.epoch(PARTITION), table.mark(PARTITION)) == (2, "b")


def test_should_know_predecessors_when_compaction_has_taken_their_claims() -> None:
    table = read(*claim_of(B, read(*claim_of(A, ClaimTable()))))

    assert table.not_fenced(PARTITION, C) == {A, B}


def test_should_fence_nobody_who_was_fenced_or_has_released() -> None:
    fenced, released = Settled("b", fenced=True, released=False), Settled("b", fenced=True, released=True)
    claims = (*claim_of(A, ClaimTable()), *claim_of(B, read(*claim_of(A, ClaimTable()))))

    assert read(*claims, *settled_records([PARTITION], fenced)).not_fenced(PARTITION, C) == {B}
    assert read(*claims, *settled_records([PARTITION], released)).not_fenced(PARTITION, C) == set()
    # a late word about an older claim says nothing about this one
    late = Settled("a", fenced=True, released=True)
    assert read(*claims, *settled_records([PARTITION], late)).not_fenced(PARTITION, C) == {A, B}


def test_should_hold_a_claim_until_the_next_one_or_until_all_are_gone() -> None:
    table = read(*claim_of(A, ClaimTable()))
    claim = Claim("group", {PARTITION: 1}, "a")
    table.check(claim)

    for other in (read(*claim_of(A, ClaimTable()), *claim_of(B, table)), ClaimTable()):
        with pytest.raises(CommitFenced, match="a-b-0 was claimed with epoch 1 and is now with epoch"):
            other.check(claim)


@pytest.mark.parametrize(
    ("key", "value"), [(b"a", b"{}"), (b"a-x", b"{}"), (b"a-0", b"x"), (b"a-0/settled", b"[]"), (b"\xff-0", b"{}")]
)
def test_should_say_which_record_cannot_be_read(key: bytes, value: bytes) -> None:
    with pytest.raises(LogError, match="of a claims topic cannot be read"):
        ClaimTable().apply(key, value)


def test_should_read_what_it_wrote() -> None:
    (key, value), *others = claim_of(C, read(*claim_of(A, ClaimTable())))

    assert (key, others) == (b"a-b-0", [])
    assert json.loads(value) == {"mark": "c", "epoch": 2, "owner": ["C", 2, 0], "predecessors": [["A", 0, 0]]}


async def test_should_let_commits_that_wait_together_time_out_together() -> None:
    """The first commit reads the claims by itself; all others share the second read."""
    looks = []

    class Away(Leadership):
        async def call(self, what: str, attempt: Callable[[], Awaitable[T]]) -> T:
            looks.append(what)
            await asyncio.sleep(0)
            raise LogTimeout("away")

    settings = log_settings("127.0.0.1:1")
    away = Away(settings.client)
    group = GroupClaims("group", away, ClaimsWriter(away, settings), KafkaLog("127.0.0.1:1").make_claims_topic)
    answers = await asyncio.gather(*(group.check([]) for _ in range(5)), return_exceptions=True)

    assert [str(each) for each in answers] == ["away"] * 5
    assert looks == ["claims", "claims"]
