"""Creates the tables of the log's file, checks that this program can use the file, and keeps the catalog of the log's
partitions.

Rules: the file has the id of this format (`application_id`) and the version of its tables (`user_version`). A file with
an unknown version is refused. The tables are created under the write lock, in one transaction. If a process dies before
the end of the transaction, the next process creates the tables again. Each log has its own id. A state directory stores
the id of the log from which it was restored. If an early version of this program created a log, the log has no id. Such
a log gets an id when it is opened.
"""

import json
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from assignor.types import TopicPartition
from operating_system.private_files import create_private_file
from streams_runtime.logs.base import TopicDescription
from streams_runtime.logs.embedded.connections import SharedConnection, WriteLock, as_log_errors
from streams_runtime.logs.log_errors import LogError, UnknownTopicOrPartition
from streams_runtime.logs.topic_configs import TopicConfigs

T = TypeVar("T")

APPLICATION_ID = 0x6B6C6F67
SCHEMA_VERSION = 1
_PAGE_BYTES = 16_384

_TABLES = (
    "CREATE TABLE topics (name TEXT PRIMARY KEY, partitions INTEGER NOT NULL, configs TEXT NOT NULL) WITHOUT ROWID",
    # `cleaned_to` is the offset below which all records are compacted. `bytes` is the size of all payloads.
    # `dirty_bytes` is the size of the payloads from `cleaned_to` on. `cleaner` is the holder of the compaction lease.
    # `cleaner_until_ms` is the end of this lease.
    """CREATE TABLE partitions (
        id INTEGER PRIMARY KEY, topic TEXT NOT NULL, number INTEGER NOT NULL,
        begin_offset INTEGER NOT NULL DEFAULT 0, end_offset INTEGER NOT NULL DEFAULT 0,
        cleaned_to INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0, dirty_bytes INTEGER NOT NULL DEFAULT 0,
        cleaner TEXT, cleaner_until_ms INTEGER,
        UNIQUE (topic, number))""",
    # the payload comes last, so that the other columns are read without reading the payload's pages
    """CREATE TABLE batches (
        partition INTEGER NOT NULL, base_offset INTEGER NOT NULL, last_offset INTEGER NOT NULL,
        record_count INTEGER NOT NULL, max_timestamp_ms INTEGER NOT NULL, delete_horizon_ms INTEGER,
        size INTEGER NOT NULL, payload BLOB NOT NULL)""",
    # the index contains the size, so that a sum of sizes is computed from the index alone
    "CREATE UNIQUE INDEX batches_in_order ON batches (partition, last_offset, size)",
    "CREATE TABLE producers (transactional_id TEXT PRIMARY KEY, epoch INTEGER NOT NULL) WITHOUT ROWID",
    # The first claim of a partition adds a row for the partition. `committed_offset` is NULL until the first commit.
    """CREATE TABLE group_offsets (
        group_id TEXT NOT NULL, topic TEXT NOT NULL, number INTEGER NOT NULL, claim_epoch INTEGER NOT NULL,
        committed_offset INTEGER, metadata TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (group_id, topic, number)) WITHOUT ROWID""",
)


def prepare(file: Path, lock: WriteLock, timeout_ms: int) -> str:
    """Create the log's file, or check an existing file. Returns the log's id. Raises LogError, LogTimeout."""
    with lock.held(), as_log_errors(file):
        create_private_file(file)
        connection = sqlite3.connect(file, timeout=timeout_ms / 1_000, isolation_level=None)
        try:
            if _is_empty(connection):
                _make(connection, file)
            _check(connection, file)
            return _id_of(connection)
        finally:
            connection.close()


def _is_empty(connection: sqlite3.Connection) -> bool:
    return bool(
        connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0] == 0
        and connection.execute("PRAGMA application_id").fetchone()[0] == 0
    )


def _make(connection: sqlite3.Connection, file: Path) -> None:
    connection.execute(f"PRAGMA page_size={_PAGE_BYTES}")
    mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    if mode != "wal":
        raise LogError(
            f"log {file}: its file system has no shared memory (SQLite's journal mode stays {mode!r}); use a local disk"
        )
    connection.execute("BEGIN IMMEDIATE")
    for statement in _TABLES:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _check(connection: sqlite3.Connection, file: Path) -> None:
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise LogError(f"{file} is a SQLite file, but not a log of this program")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != SCHEMA_VERSION:
        raise LogError(
            f"log {file} has tables of version {version}, and this program knows version {SCHEMA_VERSION} only:"
            " use the program that wrote it, or another directory"
        )


def _id_of(connection: sqlite3.Connection) -> str:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("CREATE TABLE IF NOT EXISTS cluster (id TEXT PRIMARY KEY) WITHOUT ROWID")
    found = connection.execute("SELECT id FROM cluster").fetchone()
    cluster_id = str(uuid.uuid4()) if found is None else str(found[0])
    if found is None:
        connection.execute("INSERT INTO cluster (id) VALUES (?)", (cluster_id,))
    connection.execute("COMMIT")
    return cluster_id


class KnownPartition(NamedTuple):
    """A partition in the catalog. `id`: the column `partitions.id` of the file."""

    id: int
    configs: TopicConfigs


class Catalog:
    """A cache of the existing partitions, their ids in the file, and their configs. Any thread may use the catalog,
    because its mapping is never modified: a new mapping replaces the old mapping.

    Ids are never reused (`maintenance`), so a cached id either belongs to the same partition or to a deleted partition.
    If the partition was deleted, `current` reads the file again. Cached configs may be outdated. The method `all` reads
    the configs again.
    """

    def __init__(self, connection: SharedConnection) -> None:
        self._connection = connection
        self._known: Mapping[TopicPartition, KnownPartition] = {}

    def find(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, KnownPartition]:
        """Returns the partitions of the catalog, in the given order. Raises UnknownTopicOrPartition, which names the
        missing partitions.
        """
        asked = list(partitions)
        known = self._known
        if any(partition not in known for partition in asked):
            known = self.all()
        missing = [partition for partition in asked if partition not in known]
        if missing:
            raise UnknownTopicOrPartition(f"there is no partition {', '.join(map(str, missing))}")
        return {partition: known[partition] for partition in asked}

    def current(self, call: Callable[[], T]) -> T:
        """Returns the result of `call`. If `call` raises UnknownTopicOrPartition, empties the cache and runs `call`
        once more. `call` runs a second time because a topic may have been deleted and created again.
        """
        try:
            return call()
        except UnknownTopicOrPartition:
            self.forget()
            return call()

    def forget(self) -> None:
        """Empty the cache, so that the next look-up reads the file."""
        self._known = {}

    def all(self) -> Mapping[TopicPartition, KnownPartition]:
        """Reads the file again, and returns all existing partitions."""
        with self._connection.use() as connection:
            topics = connection.execute("SELECT name, configs FROM topics").fetchall()
            rows = connection.execute("SELECT id, topic, number FROM partitions").fetchall()
        configs = {name: TopicConfigs.of(name, json.loads(text)) for name, text in topics}
        # If a topic is created between the two reads, it has no configs here. The next call of `all` finds its
        # partitions and configs.
        self._known = {
            TopicPartition(topic, number): KnownPartition(partition_id, configs[topic])
            for partition_id, topic, number in rows
            if topic in configs
        }
        return self._known

    def topics(self) -> dict[str, TopicDescription]:
        with self._connection.use() as connection:
            rows = connection.execute("SELECT name, partitions, configs FROM topics ORDER BY name").fetchall()
        return {name: TopicDescription(name, partitions, json.loads(text)) for name, partitions, text in rows}
