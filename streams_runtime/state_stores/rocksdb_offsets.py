"""The changelog offset of a store in RocksDB, and the origin of the store's content.

Rules:
- The database has a second column family, OFFSETS. OFFSETS contains the offset of the last changelog record in the
  store, and the origin of the content: the changelog, the id of its topic, and the id of the log (on Kafka: of the
  cluster). Data and offset are written in the same write batch.
- RocksDB numbers its writes. The batch with an offset also contains the number of its last write. If the database's
  newest number is higher, the files were written without an offset since, by a release that keeps its offsets in the
  checkpoint file. Then the stored offset is not used, because it does not belong to the content.
- RocksDB's own write-ahead log is on, so a killed process loses no batch. The write-ahead log is not synced at each
  write, because a sync takes milliseconds. So a failure of the machine may lose the last batches.
- RocksDB flushes both column families together (atomic_flush). So after every crash, the store has exactly the result
  of its first batches, and the offset belongs to this content.
- If the files were restored from another changelog or another log, or if the changelog was deleted and created again
  since, `open` raises StoreCorrupted. An id is not compared if the files do not contain it, or if the log did not
  return it. The next write of an offset adds the ids that the files do not contain, so later openings compare them.

Source: KIP-1035.
"""

import logging
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rocksdict import AccessType, Options, Rdict

from assignor.types import TopicPartition
from streams_runtime.state_stores.rocksdb_options import offset_options, store_options
from streams_runtime.state_stores.state_store import StoreContext, StoreOffset

OFFSETS = "offsets"
"""The name of the column family with the changelog offset."""
OFFSET, _CHANGELOG, _TOPIC_ID, _LOG = b"offset", b"changelog", b"topic-id", b"log"
_LONG_BYTES = 8

_logger = logging.getLogger(__name__)


def open_database(directory: Path, options: Options, access: Any = None) -> Any:
    families = {"default": options, OFFSETS: offset_options()}
    if access is None:
        return Rdict(str(directory), options, column_families=families)
    return Rdict(str(directory), options, column_families=families, access_type=access)


def flush_database(database: Any) -> None:
    """Flushes both column families. RocksDB keeps its write-ahead logs until every column family in them is flushed."""
    database.flush()
    offsets = database.get_column_family(OFFSETS)
    try:
        offsets.flush()
    finally:
        offsets.close()


def stored_values(database: Any) -> dict[bytes, bytes]:
    offsets = database.get_column_family(OFFSETS)
    try:
        return {key: value for key in (OFFSET, _CHANGELOG, _TOPIC_ID, _LOG) if (value := offsets.get(key)) is not None}
    finally:
        offsets.close()


def origin_of(context: StoreContext) -> dict[bytes, bytes]:
    if context.changelog is None:
        return {}
    changelog = f"{context.changelog.topic} {context.changelog.partition}"
    texts = {_CHANGELOG: changelog, _LOG: context.log_id, _TOPIC_ID: context.topic_id}
    return {key: text.encode() for key, text in texts.items() if text is not None}


def encoded_offset(offset: StoreOffset, database: Any, batch: Any) -> bytes:
    """Returns the value of OFFSET, which has to be the next and last write of the batch: the offset and the number of
    this write. A global store has an offset for each partition of its topic.
    """
    offsets = (offset,) if isinstance(offset, int) else offset
    number = database.latest_sequence_number() + batch.len() + 1
    return struct.pack(f">{len(offsets) + 1}q", *offsets, number)


def decoded_offset(stored: Mapping[bytes, bytes], database: Any) -> StoreOffset | None:
    """Returns the stored offset. Returns None if there is none, or if the files were written without an offset since.
    Returns one number also for a global store whose topic has one partition, because the bytes are the same.
    """
    raw = stored.get(OFFSET)
    if not raw or len(raw) % _LONG_BYTES:
        return None
    numbers: tuple[int, ...] = struct.unpack(f">{len(raw) // _LONG_BYTES}q", raw)
    if len(numbers) == 1:  # the format of a few unreleased versions, without the number of the write
        return numbers[0]
    if numbers[-1] != database.latest_sequence_number():
        return None
    return numbers[0] if len(numbers) == 2 else numbers[:-1]


def stored_offset(directory: Path) -> tuple[TopicPartition, int] | None:
    """Returns the changelog of the closed store in this directory, and the offset of the last changelog record in the
    store. Returns None if the store has no offset, or cannot be read.
    """
    if not (directory / "CURRENT").exists():  # rocksdict would create the directory, and write a file into it
        return None
    try:
        database = open_database(directory, store_options(), AccessType.read_only())
        try:
            stored = stored_values(database)
            offset = decoded_offset(stored, database)
        finally:
            database.close()
        topic, _, partition = stored[_CHANGELOG].decode().rpartition(" ")
        return (TopicPartition(topic, int(partition)), offset) if isinstance(offset, int) else None
    except Exception:  # rocksdict raises errors of the plain class Exception
        _logger.debug("the offset of the store in %s cannot be read", directory, exc_info=True)
        return None
