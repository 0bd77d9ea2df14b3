"""The smallest stores that keep the contract of `StateStore`: one in a file that only `flush` writes, one in memory.

They note down what is done with them, so that tests can ask for the order of things.
"""

import json
from pathlib import Path

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.records import Headers
from streams_runtime.logs.base import RecordBatch
from streams_runtime.logs.record_limits import RecordLimits
from streams_runtime.state_stores.state_store import NoRecords, StoreContext
from tests.known import known


class ChangesSeen:
    """A change logger that is only there to be handed on."""

    def limits_of(self, store: str) -> RecordLimits:
        raise NotImplementedError

    def check_change(
        self, store: str, key: bytes, value: bytes | None, timestamp_ms: int, headers: Headers = ()
    ) -> None:
        """Every change is taken."""

    def log_change(self, store: str, key: bytes, value: bytes | None, timestamp_ms: int, headers: Headers = ()) -> None:
        raise NotImplementedError


def store_context(task: TaskId, directory: Path, changes: ChangesSeen | None = None) -> StoreContext:
    return StoreContext(task, directory, changes, NoRecords())


def batch_of(partition: TopicPartition, first_offset: int, *entries: tuple[bytes, bytes | None]) -> RecordBatch:
    return RecordBatch(
        partition,
        range(first_offset, first_offset + len(entries)),
        [0] * len(entries),
        [key for key, _ in entries],
        [value for _, value in entries],
    )


class MemoryStore:
    """`fail_at`: the calls that raise, by name."""

    persistent = False

    def __init__(self, name: str, done: list[str] | None = None) -> None:
        self._name = name
        self.done: list[str] = [] if done is None else done
        self.fail_at: dict[str, Exception] = {}
        self.content: dict[bytes, bytes] = {}
        self.context: StoreContext | None = None
        self.is_open = False

    @property
    def name(self) -> str:
        return self._name

    def open(self, context: StoreContext) -> None:
        self._do("open")
        self.context = context
        self.is_open = True

    def rebind(self, context: StoreContext) -> None:
        self._do("rebind")
        self.context = context

    def restore(self, batch: RecordBatch) -> None:
        self._do("restore")
        for key, value in zip(batch.keys, batch.values, strict=True):
            assert key is not None
            if value is None:
                self.content.pop(key, None)
            else:
                self.content[key] = value

    def flush(self) -> None:
        self._do("flush")

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self._do("close")
            self.content = {}

    def _do(self, what: str) -> None:
        self.done.append(f"{what} {self._name}")
        if what in self.fail_at:
            raise self.fail_at[what]


class FileStore(MemoryStore):
    persistent = True

    @property
    def file(self) -> Path:
        return known(self.context).directory / "rocksdb" / self._name / "data"

    def open(self, context: StoreContext) -> None:
        super().open(context)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        if self.file.exists():
            self.content = {k.encode(): v.encode() for k, v in json.loads(self.file.read_text()).items()}

    def flush(self) -> None:
        super().flush()
        self.file.write_text(json.dumps({k.decode(): v.decode() for k, v in self.content.items()}))

    def close(self) -> None:
        if self.is_open and "close" not in self.fail_at:
            self.flush()
        super().close()
