"""What a producer of a log of one machine makes of the records that it takes: batches of limited size."""

from collections.abc import Mapping, Sequence

from assignor.types import TopicPartition
from streams_runtime.logs.base import BATCH_BYTES, BATCH_RECORDS, OffsetsToCommit
from streams_runtime.logs.producers import BufferingProducer, NewBatch, ProducerIdentity
from streams_runtime.logs.record_limits import RecordLimits

PARTITION = TopicPartition("topic", 0)


class Noted:
    """A `Destination` that notes records and bytes of each batch."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int]] = []

    def limits_of(self, partition: TopicPartition) -> RecordLimits:
        return RecordLimits(max_bytes=BATCH_BYTES, compacts=False)

    def append(
        self,
        batches: Mapping[TopicPartition, Sequence[NewBatch]],
        offsets: OffsetsToCommit,
        identity: ProducerIdentity | None,
    ) -> dict[TopicPartition, int]:
        self.batches += [(len(batch.keys), batch.size) for batch in batches[PARTITION]]
        return {}


def test_should_begin_a_batch_where_the_one_before_is_full() -> None:
    noted = Noted()
    producer = BufferingProducer(noted, None)
    for _ in range(BATCH_RECORDS + 1):
        producer.send(PARTITION, None, b"", 0)
    half = bytes(BATCH_BYTES // 2)
    for value in (half, half, b"x"):
        producer.send(PARTITION, None, value, 0)
    producer.flush()

    assert noted.batches == [(BATCH_RECORDS, 0), (3, BATCH_BYTES), (1, 1)]
