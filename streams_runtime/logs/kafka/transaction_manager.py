"""Gets a producer's id, and runs the producer's transactions with requests to the transaction coordinator. The function
`commit_offsets` commits offsets without a transaction.

Rules: opening a transactional id fences the producer that had the id before, and ends the open transaction of this
producer. The coordinator confirms that an id is open only after it has written the markers of the ended transaction to
all partitions. Until the markers are written, the coordinator answers CONCURRENT_TRANSACTIONS. So once the id is open,
no more records of the ended transaction can appear. Source: `TransactionManager`, `TransactionCoordinator`, KIP-98.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from aiokafka.protocol.commit import OffsetCommitRequest
from aiokafka.protocol.transaction import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from assignor.types import TopicPartition
from kafka_client.error_codes import CONCURRENT_TRANSACTIONS, check
from kafka_client.errors import NotNow
from kafka_client.requests import by_topic
from streams_runtime.logs.base import CommittedOffsets
from streams_runtime.logs.kafka.leadership import CoordinatorOf, Leadership
from streams_runtime.logs.log_errors import LogError, ProducerFenced

_UNKNOWN_SERVER_ERROR = -1
_OPERATION_NOT_ATTEMPTED = 55
_NO_GENERATION = _NO_RETENTION = -1
_QUICK_TRIES, _QUICK_PAUSE_S = 20, 0.005
FENCED = frozenset({47, 48, 49, 52, 90, 120})
"""The errors that a producer gets after its transaction was ended by a newer producer, or by the coordinator after a
time-out: INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING, TRANSACTION_COORDINATOR_FENCED,
PRODUCER_FENCED, TRANSACTION_ABORTABLE.
"""
_GROUP_HAS_MEMBERS = frozenset({22, 25, 27})
"""The errors that the brokers return for a commit of offsets if the group has members: ILLEGAL_GENERATION,
UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS.
"""


class TransactionManager:
    """The producer id, the epoch and the transactions of one producer. `transactional_id`: None if the producer has no
    transactions. `producer_id`: -1 until the producer is opened.
    """

    def __init__(self, leadership: Leadership, transactional_id: str | None, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.producer_id = self.epoch = -1
        self._leadership = leadership
        self._timeout_ms = timeout_ms

    async def open(self) -> None:
        """Get a producer id with a new epoch. Raises LogTimeout, LogError."""
        request = InitProducerIdRequest(self.transactional_id, self._timeout_ms)

        async def attempt() -> None:
            if self.transactional_id is None:
                answer = await self._leadership.connections.send(request)
            else:
                answer = await self._ask(request)
            if answer.error_code in (47, 90):  # another producer is opening the id, so try again later
                raise NotNow(f"producer {self.transactional_id} is being opened elsewhere")
            check(answer.error_code, f"opening producer {self.transactional_id or ''}")
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

        await self._call("opening a producer", attempt)

    async def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to the transaction. Raises ProducerFenced, LogTimeout, LogError."""
        request = AddPartitionsToTxnRequest(*self._identity(), list(by_topic(partitions).items()))

        async def attempt() -> None:
            answer = await self._ask(request)
            codes = [(f"{topic}-{number}", code) for topic, numbers in answer.errors for number, code in numbers]
            for what, code in sorted(codes, key=lambda each: each[1] == _OPERATION_NOT_ATTEMPTED):
                self._check(code, f"adding {what} to the transaction")

        await self._call("adding partitions to the transaction", attempt)

    async def add_offsets(self, group: str, offsets: CommittedOffsets) -> None:
        """Add a group's offsets to the transaction. Raises ProducerFenced, LogTimeout, LogError."""
        of_group = AddOffsetsToTxnRequest(*self._identity(), group)

        async def add_group() -> None:
            self._check((await self._ask(of_group)).error_code, f"adding group {group} to the transaction")

        await self._call(f"adding group {group} to the transaction", add_group)
        transactional_id, producer_id, epoch = self._identity()
        commit = TxnOffsetCommitRequest(transactional_id, group, producer_id, epoch, _offsets_by_topic(offsets))

        async def attempt() -> None:
            answer = await self._leadership.ask_coordinator(CoordinatorOf.GROUP, group, commit)
            for topic, numbers in answer.errors:
                for number, code in numbers:
                    self._check(code, f"offset of {topic}-{number} in group {group}")

        await self._call(f"offsets of group {group}", attempt)

    async def end(self, *, commit: bool) -> None:
        """Commit or abort the transaction. The same call may be repeated. Raises the errors of `add_partitions`.

        Kafka 4.3.1 has a fault: if a second producer opens the same transactional id during a commit, the broker
        answers the commit with UNKNOWN_SERVER_ERROR. The fault is in `TransactionMetadata.prepareTransitionTo`, which
        finds a pending PREPARE_EPOCH_FENCE. After UNKNOWN_SERVER_ERROR, `end` sends the request again, and gets the
        real result.
        Differs from Kafka: after UNKNOWN_SERVER_ERROR, Kafka's own producer fails and cannot be used any more.
        """
        request = EndTxnRequest(*self._identity(), commit)

        async def attempt() -> None:
            code = (await self._ask(request)).error_code
            if code == _UNKNOWN_SERVER_ERROR:
                raise NotNow("ending the transaction: UNKNOWN_SERVER_ERROR")
            self._check(code, "ending the transaction")

        await self._call("ending the transaction", attempt)

    def fenced(self) -> ProducerFenced:
        return ProducerFenced(
            f"producer {self.transactional_id} of epoch {self.epoch} was replaced by a newer one, or its transaction "
            f"was open for more than {self._timeout_ms} ms (transaction.timeout.ms)"
        )

    def _identity(self) -> tuple[str, int, int]:
        assert self.transactional_id is not None, "only a transactional producer has transactions"
        return self.transactional_id, self.producer_id, self.epoch

    async def _ask(self, request: object) -> Any:
        return await self._leadership.ask_coordinator(CoordinatorOf.TRANSACTION, self.transactional_id or "", request)

    def _check(self, code: int, what: str) -> None:
        if code in FENCED:
            raise self.fenced()
        check(code, what)

    async def _call(self, what: str, attempt: Callable[[], Awaitable[None]]) -> None:
        """Call `attempt` until it succeeds. The first retries come quickly, because the coordinator writes the markers
        of the last transaction within some milliseconds.
        """

        async def patient() -> None:
            for _ in range(_QUICK_TRIES):
                try:
                    return await attempt()
                except NotNow as reason:
                    if reason.code != CONCURRENT_TRANSACTIONS:
                        raise
                    await asyncio.sleep(_QUICK_PAUSE_S)
            return await attempt()

        await self._leadership.call(what, patient)


async def commit_offsets(leadership: Leadership, group: str, offsets: CommittedOffsets) -> None:
    """Commits offsets without a transaction and without group membership, as
    `ConsumerCoordinator.sendOffsetCommitRequest` does.

    The group must have no members on the brokers, so the commit has no generation. Claims decide which owner may
    commit. A group with members on the brokers belongs to another application. Raises LogTimeout, LogError.
    """
    request = OffsetCommitRequest(group, _NO_GENERATION, "", _NO_RETENTION, _offsets_by_topic(offsets))

    async def attempt() -> None:
        answer = await leadership.ask_coordinator(CoordinatorOf.GROUP, group, request)
        for topic, numbers in answer.topics:
            for number, code in numbers:
                if code in _GROUP_HAS_MEMBERS:
                    raise LogError(_has_members(group))
                check(code, f"offset of {topic}-{number} in group {group}")

    await leadership.call(f"committing offsets of group {group}", attempt)


def _offsets_by_topic(offsets: CommittedOffsets) -> list[tuple[str, list[tuple[int, int, str]]]]:
    """Returns the offsets in the form of a request: for each topic, a list of partition number, offset and metadata."""
    topics: dict[str, list[tuple[int, int, str]]] = {}
    for (topic, number), (offset, metadata) in offsets.items():
        topics.setdefault(topic, []).append((number, offset, metadata))
    return list(topics.items())


def _has_members(group: str) -> str:
    return (
        f"group {group} has members of its own on the brokers (a Kafka Streams application or consumers): "
        "choose another application.id, or stop them first"
    )
