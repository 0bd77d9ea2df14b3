"""A `TaskRuntime` that only records what nodes ask of it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from assignor import TaskId
from assignor.topology.builder import LOGGED
from assignor.topology.group_topology import ChangelogConfig
from streams_runtime import Headers, Processor, ProcessorContext, PunctuationType, Record, RecordMetadata
from streams_runtime.common.losses import TaskLosses, uncounted
from streams_runtime.logs.base import RecordBatch
from streams_runtime.processors.api import Punctuator
from streams_runtime.processors.context import Receiver
from streams_runtime.processors.runtime import RunPosition, SinkSettings
from streams_runtime.serdes.defaults import DefaultSerdes
from streams_runtime.state_stores.state_store import StateStore, StoreContext
from streams_runtime.state_stores.thread_cache import ContextTuple

TASK = TaskId(0, 0)
METADATA = RecordMetadata("in", 0, 7)


class Sent(NamedTuple):
    """Key and value as a sink got them."""

    topic: str
    key: Any
    value: Any
    timestamp_ms: int
    headers: Headers


@dataclass
class Scheduled:
    """The arguments of `schedule`, and whether it was cancelled."""

    node: str
    interval_ms: int
    type: PunctuationType
    callback: Punctuator
    start_time_ms: int | None
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class RecordingRuntime:
    stores: dict[str, StateStore] = field(default_factory=dict)
    global_stores: dict[str, StateStore] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    scheduled: list[Scheduled] = field(default_factory=list)
    commits: int = 0
    application_id: str = "app"
    default_serdes: DefaultSerdes = field(default_factory=DefaultSerdes)
    task_id: TaskId = TASK
    record_metadata: RecordMetadata | None = METADATA
    headers: Headers = (("h", b"1"),)
    stream_time_ms: int = 11
    current_system_time_ms: int = 12
    losses: TaskLosses = field(default_factory=lambda: uncounted(TASK))
    position: RunPosition | None = None
    processor_metadata: dict[str, int] = field(default_factory=dict)

    def sink(self, node: str, topic: str, settings: SinkSettings) -> Receiver:
        def send(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            self.sent.append(Sent(topic, key, value, timestamp_ms, headers))

        return send

    def move_to(self, position: RunPosition, *, in_batch: bool) -> None:
        raise AssertionError("no node collects records that are no part of a run")

    def schedule(
        self, node: str, interval_ms: int, type: PunctuationType, callback: Punctuator, start_time_ms: int | None
    ) -> Scheduled:
        self.scheduled.append(Scheduled(node, interval_ms, type, callback, start_time_ms))
        return self.scheduled[-1]

    def request_commit(self) -> None:
        self.commits += 1

    def node_failed(self, node: str, error: Exception) -> bool:
        return False

    def record_context(self) -> ContextTuple:
        raise AssertionError("no node keeps a record for later")

    def begin_flush(self) -> None:
        raise AssertionError("no node has kept a record")

    def set_context(self, context: ContextTuple) -> None: ...
    def end_flush(self, previous: None) -> None: ...


class EmptyStore:
    """A store without content. Tests of the graph only compare which store they get."""

    persistent = False
    is_open = True

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, context: StoreContext) -> None: ...
    def rebind(self, context: StoreContext) -> None: ...
    def restore(self, batch: RecordBatch) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class EmptyStoreBuilder:
    name: str
    changelog: ChangelogConfig | None = LOGGED
    directory: Path | None = None

    def build(self) -> EmptyStore:
        return EmptyStore(self.name)


class PassOn(Processor[Any, Any]):
    """Forwards every record as it is."""

    context: ProcessorContext

    def init(self, context: ProcessorContext) -> None:
        self.context = context

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)
