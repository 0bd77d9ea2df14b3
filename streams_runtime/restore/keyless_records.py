"""Changelog records without a key: they are in no store. Only a source topic used as changelog has any.

Source: `StoreChangelogReader.bufferChangelogRecords`.
"""

from __future__ import annotations

from streams_runtime.logs.base import RecordBatch


def records_with_keys(batch: RecordBatch) -> RecordBatch | None:
    """The batch without them; None when nothing is left."""
    if None not in batch.keys:
        return batch
    kept = [index for index, key in enumerate(batch.keys) if key is not None]
    if not kept:
        return None
    return RecordBatch(
        batch.partition,
        [batch.offsets[index] for index in kept],
        [batch.timestamps_ms[index] for index in kept],
        [batch.keys[index] for index in kept],
        [batch.values[index] for index in kept],
        None if batch.headers is None else [batch.headers[index] for index in kept],
    )
