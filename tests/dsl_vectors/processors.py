"""The user processors of cases. Each has a twin in Java that Kafka ran; the format's README defines both."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from streams_runtime import (
    Cancellable,
    FixedKeyProcessor,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    ValueAndTimestamp,
    Windowed,
)
from tests.dsl_vectors.cases import Case
from tests.dsl_vectors.functions import KEYS, VALUES, fail_on, hash_of, num, text
from tests.dsl_vectors.registry import Registry

NO_METADATA = "none"
KAFKAS_METADATA_OF_PUNCTUATORS = "null/-1/-1"

AnyRecord = Record[Any, Any]


class CaseProcessor(Processor[Any, Any]):
    """Runs the function of its kind for each record.

    `written`: `["name", parameters...]`. `has_timestamps`: whether the store keeps one with each value.
    `without_metadata`: what `context` writes in a punctuation, where there is no record.
    """

    def __init__(self, written: list[Any], store_names: list[str], has_timestamps: bool, without_metadata: str) -> None:
        self.kind, *self.parameters = written
        self.has_timestamps = has_timestamps
        self.without_metadata = without_metadata
        self._store_names = store_names
        self._process = PROCESSORS.get(written)
        self.context: ProcessorContext
        self.stores: list[Any]
        self.punctuation: Cancellable
        self.seen = 0
        self.fired = 0

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.stores = [context.state_store(name) for name in self._store_names]
        if self.kind in PUNCTUATION_TYPES:
            every_ms, _firings, start_ms = (*self.parameters, None, None)[:3]
            tick = partial(punctuate, self)
            self.punctuation = context.schedule(every_ms, PUNCTUATION_TYPES[self.kind], tick, start_time_ms=start_ms)

    def process(self, record: AnyRecord) -> None:
        self._process(self, record)

    @property
    def store(self) -> Any:
        """The first one."""
        return self.stores[0]

    def answer(self, record: AnyRecord, key: Any, value: Any) -> None:
        """Forward a new record: the value as text, the input's timestamp, no headers."""
        self.context.forward(Record(key, None if value is None else text(value), record.timestamp_ms))

    def answer_all(self, record: AnyRecord, rows: Iterable[tuple[Any, Any]]) -> None:
        """One answer for each row, then their number."""
        found = list(rows)
        for key, value in found:
            self.answer(record, text(key), value)
        self.answer(record, "end", len(found))


class FixedKeyCaseProcessor(CaseProcessor, FixedKeyProcessor[Any, Any]):
    """Of `processValues`."""


def processor_supplier(
    written: list[Any],
    store_names: list[str],
    case: Case,
    without_metadata: str,
    kind: type[CaseProcessor] = CaseProcessor,
) -> Callable[[], Any]:
    """Raises NotKnown for a processor or a key function that this project does not have."""
    PROCESSORS.get(written)
    if written[0] == "newKey":
        KEYS.get(written[1])
    types = {operator["store"]: operator["storeType"] for operator in case.operators if "store" in operator}
    has_timestamps = any(types.get(name, "").startswith("timestamped") for name in store_names)
    return partial(kind, written, store_names, has_timestamps, without_metadata)


# punctuations

PUNCTUATION_TYPES = {
    "streamTick": PunctuationType.STREAM_TIME,
    "streamTickOnly": PunctuationType.STREAM_TIME,
    "wallTick": PunctuationType.WALL_CLOCK_TIME,
}


def punctuate(processor: CaseProcessor, time_ms: int) -> None:
    """Forwards how many records came since the last time, and the entries of the store. Ends after so many firings."""
    _every_ms, firings = (*processor.parameters, 0)[:2]
    processor.fired += 1
    forward = processor.context.forward
    record_time_ms = max(0, time_ms)
    forward(Record("tick", f"{processor.seen}@{time_ms}", record_time_ms))
    if processor.stores:
        for key, value in list(processor.store.all()):
            forward(Record(key, text(value), record_time_ms))
    processor.seen = 0
    if 0 < firings <= processor.fired:
        processor.punctuation.cancel()


# what happens to a record, by kind of processor

PROCESSORS = Registry("processor")


@PROCESSORS.named("identity")
def hand_on(processor: CaseProcessor, record: AnyRecord) -> None:
    processor.context.forward(record)


@PROCESSORS.named("value")
def change_value(function: list[Any], processor: CaseProcessor, record: AnyRecord) -> None:
    processor.context.forward(record._replace(value=VALUES.get(function)(record.key, record.value)))


@PROCESSORS.named("drop")
def drop(_processor: CaseProcessor, _record: AnyRecord) -> None:
    pass


@PROCESSORS.named("commit")
def ask_for_commit(processor: CaseProcessor, record: AnyRecord) -> None:
    processor.context.commit()
    processor.context.forward(record)


@PROCESSORS.named("copies")
def copy(count: int, processor: CaseProcessor, record: AnyRecord) -> None:
    for index in range(count):
        value, timestamp_ms = f"{text(record.value)}#{index}", record.timestamp_ms + index
        processor.context.forward(record._replace(value=value, timestamp_ms=timestamp_ms))


@PROCESSORS.named("shiftTime")
def shift_time(by_ms: int, processor: CaseProcessor, record: AnyRecord) -> None:
    processor.context.forward(record._replace(timestamp_ms=record.timestamp_ms + by_ms))


@PROCESSORS.named("newKey")
def change_key(key_function: list[Any], processor: CaseProcessor, record: AnyRecord) -> None:
    key = KEYS.get(key_function)(record.key, record.value)
    processor.context.forward(record._replace(key=key))


@PROCESSORS.named("throwOn")
def forward_or_fail(part: str, processor: CaseProcessor, record: AnyRecord) -> None:
    fail_on(part, record.value)
    processor.context.forward(record)


@PROCESSORS.named("headers")
def change_headers(processor: CaseProcessor, record: AnyRecord) -> None:
    kept = tuple(header for header in record.headers if header[0] != "drop")
    processor.context.forward(record._replace(headers=(*kept, ("seen", text(record.key).encode()))))


@PROCESSORS.named("context")
def show_context(processor: CaseProcessor, record: AnyRecord) -> None:
    context = processor.context
    metadata = context.record_metadata
    place = processor.without_metadata if metadata is None else "/".join(map(str, metadata))
    times = f"{context.current_stream_time_ms}/{context.current_system_time_ms}"
    context.forward(record._replace(value=f"{text(record.value)}|{place}/{times}"))


@PROCESSORS.named("dedup")
def leave_out_duplicates(processor: CaseProcessor, record: AnyRecord) -> None:
    if record.key is None:
        processor.context.forward(record)
    elif processor.store.get(record.key) != record.value:
        processor.store.put(record.key, record.value)
        processor.context.forward(record)


@PROCESSORS.named("countPerKey")
def count_per_key(processor: CaseProcessor, record: AnyRecord) -> None:
    if record.key is None:
        return
    count = num(processor.store.get(record.key)) + 1
    processor.store.put(record.key, count)
    processor.context.forward(record._replace(value=count))


@PROCESSORS.named("toChildren")
def choose_child(children: list[str], processor: CaseProcessor, record: AnyRecord) -> None:
    child = None if record.value is None else children[hash_of(record.value) % len(children)]
    processor.context.forward(record, child)


@PROCESSORS.named("lookup")
def look_up(processor: CaseProcessor, record: AnyRecord) -> None:
    found = None if record.value is None else processor.store.get(record.value)
    if isinstance(found, ValueAndTimestamp):
        found = found.value
    processor.context.forward(record._replace(value=f"{text(record.value)}~{text(found)}"))


@PROCESSORS.named("update")
def update_store(processor: CaseProcessor, record: AnyRecord) -> None:
    key, value, timestamp_ms, _headers = record
    if key is not None:
        stored = ValueAndTimestamp(value, timestamp_ms) if processor.has_timestamps else value
        processor.store.put(key, None if value is None else stored)


@PROCESSORS.named("streamTick", "wallTick")
def count_and_forward(*arguments: Any) -> None:
    """For the next punctuation. With a store, the record is put there as well."""
    processor, record = arguments[-2:]
    processor.seen += 1
    if processor.stores and record.key is not None:
        processor.store.put(record.key, record.value)
    processor.context.forward(record)


@PROCESSORS.named("streamTickOnly")
def only_count(*arguments: Any) -> None:
    processor, _record = arguments[-2:]
    processor.seen += 1


@PROCESSORS.named("timestampedPut")
def put_unless_older(processor: CaseProcessor, record: AnyRecord) -> None:
    key, value, timestamp_ms, _headers = record
    if key is None:
        return
    old = processor.store.get(key)
    if old is None or old.timestamp_ms <= timestamp_ms:
        processor.store.put(key, None if value is None else ValueAndTimestamp(value, timestamp_ms))
        processor.answer(record, key, "new" if old is None else f"{text(old.value)}@{old.timestamp_ms}")


@PROCESSORS.named("keyValueScript")
def run_key_value_script(processor: CaseProcessor, record: AnyRecord) -> None:
    """A value is put. `?name:parameters` is a call of the store; `*` is an open end."""
    key, value, _timestamp_ms, _headers = record
    if key is None:
        return
    if value is None or not value.startswith("?"):
        processor.store.put(key, value)
        return
    name, *parameters = value[1:].split(":")
    KEY_VALUE_QUERIES[name](processor, record, *(None if each == "*" else each for each in parameters))


@PROCESSORS.named("windowScript")
def run_window_script(width_ms: int, processor: CaseProcessor, record: AnyRecord) -> None:
    """A value is added to that of its window. `?name` is a call of the store."""
    key, value, timestamp_ms, _headers = record
    if key is None:
        return
    if value is not None and value.startswith("?"):
        rows = WINDOW_QUERIES[value[1:]](processor.store, key, timestamp_ms, width_ms)
        in_text = ((f"t{each}" if isinstance(each, int) else each, value) for each, value in rows)
        processor.answer_all(record, in_text)
        return
    start_ms = timestamp_ms // width_ms * width_ms
    before = None if value is None else processor.store.fetch(key, start_ms)
    processor.store.put(key, value if before is None else f"{before}+{value}", start_ms)
    if value is not None:
        processor.answer(record, key, processor.store.fetch(key, start_ms))


# queries of windowScript: store, key, timestamp, width

WINDOW_QUERIES: dict[str, Callable[[Any, Any, int, int], Iterable[tuple[Any, Any]]]] = {
    "fetch": lambda store, key, time_ms, width_ms: store.fetch_range(
        key, max(0, time_ms - 2 * width_ms), time_ms + width_ms
    ),
    "backwardFetch": lambda store, key, time_ms, width_ms: store.fetch_range(
        key, max(0, time_ms - 2 * width_ms), time_ms + width_ms, reverse=True
    ),
    "all": lambda store, _key, _time_ms, _width_ms: store.all(),
    "backwardAll": lambda store, _key, _time_ms, _width_ms: store.all(reverse=True),
    "fetchAll": lambda store, _key, time_ms, width_ms: store.fetch_all(max(0, time_ms - width_ms), time_ms),
    "fetchRange": lambda store, _key, time_ms, width_ms: store.fetch_keys(
        "a", "c", max(0, time_ms - 2 * width_ms), time_ms
    ),
}


# queries of keyValueScript: parameters after the record

KEY_VALUE_QUERIES: dict[str, Callable[..., None]] = {
    "get": lambda processor, record, key: processor.answer(record, key, processor.store.get(key)),
    "delete": lambda processor, record, key: processor.answer(record, key, processor.store.delete(key)),
    "putIfAbsent": lambda processor, record, key, value: processor.answer(
        record, key, processor.store.put_if_absent(key, value)
    ),
    "putAll": lambda processor, _record, key, value, deleted: processor.store.put_all([(key, value), (deleted, None)]),
    "all": lambda processor, record: processor.answer_all(record, processor.store.all()),
    "reverseAll": lambda processor, record: processor.answer_all(record, processor.store.reverse_range(None, None)),
    "range": lambda processor, record, start, end: processor.answer_all(record, processor.store.range(start, end)),
    "reverseRange": lambda processor, record, start, end: processor.answer_all(
        record, processor.store.reverse_range(start, end)
    ),
    "prefix": lambda processor, record, prefix: processor.answer_all(
        record, processor.store.prefix_scan(prefix.encode())
    ),
}


@PROCESSORS.named("versionedScript")
def run_versioned_script(processor: CaseProcessor, record: AnyRecord) -> None:
    """A value is put; the answer is when it ends. `?name` is a call of the store."""
    key, value, timestamp_ms, _headers = record
    if key is None:
        return
    match value:
        case "?get":
            found = processor.store.get(key)
        case "?asof":
            found = processor.store.get(key, timestamp_ms)
        case "?delete":
            found = processor.store.delete(key, timestamp_ms)
        case _:
            processor.answer(record, key, processor.store.put(key, value, timestamp_ms))
            return
    shown = None if found is None else f"{text(found.value)}@{found.timestamp_ms}-{found.valid_to_ms or ''}"
    processor.answer(record, key, shown)


@PROCESSORS.named("sessionScript")
def run_session_script(gap_ms: int, processor: CaseProcessor, record: AnyRecord) -> None:
    """A value extends or merges sessions; None removes them. `?name` is a call of the store."""
    key, value, time_ms, _headers = record
    if key is None:
        return
    store = processor.store
    if value is not None and value.startswith("?"):
        SESSION_QUERIES[value[1:]](processor, record, max(0, time_ms - gap_ms), time_ms + gap_ms)
        return
    found = list(store.find_sessions(key, max(0, time_ms - gap_ms), time_ms + gap_ms))
    for session, _ in found:
        store.remove(session)
    if value is None:
        return
    start_ms = min([time_ms, *(session.start_ms for session, _ in found)])
    end_ms = max([time_ms, *(session.end_ms for session, _ in found)])
    before = "&".join(text(each) for _, each in found)
    merged = f"{before}+{value}" if found else value
    store.put(Windowed(key, start_ms, end_ms), merged)
    processor.answer(record, key, f"{start_ms}-{end_ms}={merged}")


# queries of sessionScript: the earliest end and the latest start after the record

SESSION_QUERIES: dict[str, Callable[..., None]] = {
    "fetch": lambda processor, record, _end, _start: processor.answer_all(record, processor.store.fetch(record.key)),
    "backwardFetch": lambda processor, record, _end, _start: processor.answer_all(
        record, processor.store.fetch(record.key, reverse=True)
    ),
    "find": lambda processor, record, end, start: processor.answer_all(
        record, processor.store.find_sessions(record.key, end, start)
    ),
    "backwardFind": lambda processor, record, end, start: processor.answer_all(
        record, processor.store.find_sessions(record.key, end, start, reverse=True)
    ),
    "findAll": lambda processor, record, end, _start: processor.answer_all(
        record, processor.store.find_sessions_by_end(end, record.timestamp_ms)
    ),
    "fetchRange": lambda processor, record, _end, _start: processor.answer_all(
        record, processor.store.fetch_keys("a", "c")
    ),
    "one": lambda processor, record, _end, _start: processor.answer(
        record, record.key, processor.store.fetch_session(record.key, record.timestamp_ms, record.timestamp_ms)
    ),
}
