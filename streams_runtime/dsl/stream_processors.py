"""The stateless operations of streams, one small processor each. They call the user's function once for each record.

Headers and timestamps stay. Source: `KStreamMap`, `KStreamFlatMap`, `KStreamFlatMapValues`, `KStreamMapValues`,
`KStreamFilter`, `KStreamPeek`, `ForeachProcessor`, `KStreamBranch`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from streams_runtime.dsl.forwarding import ForwardingProcessor
from streams_runtime.losses import DropReason
from streams_runtime.processors.api import Processor
from streams_runtime.records import Record

AnyRecord = Record[Any, Any]


class KStreamMap(ForwardingProcessor[Any, Any]):
    def __init__(self, mapper: Callable[[Any, Any], tuple[Any, Any]]) -> None:
        super().__init__()
        self._mapper = mapper

    def process(self, record: AnyRecord) -> None:
        key, value, timestamp_ms, headers = record
        key, value = self._mapper(key, value)
        self.forward(Record(key, value, timestamp_ms, headers))


class KStreamSelectKey(ForwardingProcessor[Any, Any]):
    """In Kafka a `KStreamMap` does this."""

    def __init__(self, selector: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self._selector = selector

    def process(self, record: AnyRecord) -> None:
        key, value, timestamp_ms, headers = record
        self.forward(Record(self._selector(key, value), value, timestamp_ms, headers))


class KStreamFlatMap(ForwardingProcessor[Any, Any]):
    def __init__(self, mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]]) -> None:
        super().__init__()
        self._mapper = mapper

    def process(self, record: AnyRecord) -> None:
        key, value, timestamp_ms, headers = record
        forward = self.forward
        for new_key, new_value in self._mapper(key, value):
            forward(Record(new_key, new_value, timestamp_ms, headers))


class KStreamMapValues(ForwardingProcessor[Any, Any]):
    def __init__(self, mapper: Callable[[Any], Any]) -> None:
        super().__init__()
        self._mapper = mapper

    def process(self, record: AnyRecord) -> None:
        key, value, timestamp_ms, headers = record
        self.forward(Record(key, self._mapper(value), timestamp_ms, headers))


class KStreamMapValuesWithKey(ForwardingProcessor[Any, Any]):
    def __init__(self, mapper: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self._mapper = mapper

    def process(self, record: AnyRecord) -> None:
        key, value, timestamp_ms, headers = record
        self.forward(Record(key, self._mapper(key, value), timestamp_ms, headers))


class KStreamFlatMapValues(ForwardingProcessor[Any, Any]):
    def __init__(self, mapper: Callable[[Any], Iterable[Any]]) -> None:
        super().__init__()
        self._mapper = mapper

    def process(self, record: AnyRecord) -> None:
        key, value, timestamp_ms, headers = record
        forward = self.forward
        for new_value in self._mapper(value):
            forward(Record(key, new_value, timestamp_ms, headers))


class KStreamFlatMapValuesWithKey(ForwardingProcessor[Any, Any]):
    def __init__(self, mapper: Callable[[Any, Any], Iterable[Any]]) -> None:
        super().__init__()
        self._mapper = mapper

    def process(self, record: AnyRecord) -> None:
        key, value, timestamp_ms, headers = record
        forward = self.forward
        for new_value in self._mapper(key, value):
            forward(Record(key, new_value, timestamp_ms, headers))


class KStreamFilter(ForwardingProcessor[Any, Any]):
    def __init__(self, predicate: Callable[[Any, Any], bool]) -> None:
        super().__init__()
        self._predicate = predicate

    def process(self, record: AnyRecord) -> None:
        if self._predicate(record[0], record[1]):
            self.forward(record)


class KStreamFilterNot(ForwardingProcessor[Any, Any]):
    def __init__(self, predicate: Callable[[Any, Any], bool]) -> None:
        super().__init__()
        self._predicate = predicate

    def process(self, record: AnyRecord) -> None:
        if not self._predicate(record[0], record[1]):
            self.forward(record)


class NullKeyFilter(ForwardingProcessor[Any, Any]):
    """Before a repartition topic: a record without key would only be dropped after it.

    Differs from Kafka: it is counted. There, a plain filter takes such records out without a word.
    """

    def process(self, record: AnyRecord) -> None:
        if record[0] is None:
            self.drop(DropReason.NULL_KEY, "null key")
            return
        self.forward(record)


class KStreamPeek(ForwardingProcessor[Any, Any]):
    def __init__(self, action: Callable[[Any, Any], object]) -> None:
        super().__init__()
        self._action = action

    def process(self, record: AnyRecord) -> None:
        self._action(record[0], record[1])
        self.forward(record)


class ForeachProcessor(Processor[Any, Any]):
    def __init__(self, action: Callable[[Any, Any], object]) -> None:
        self._action = action

    def process(self, record: AnyRecord) -> None:
        self._action(record[0], record[1])


class KStreamBranch(ForwardingProcessor[Any, Any]):
    """Hands a record to the first branch whose predicate is true, else to the default branch, if there is one.

    `branches`: predicate and child's name. The predicate of the default branch is None, wherever it stands.
    """

    def __init__(self, branches: Sequence[tuple[Callable[[Any, Any], bool] | None, str]]) -> None:
        super().__init__()
        self._branches = [(predicate, child) for predicate, child in branches if predicate is not None]
        self._default = next((child for predicate, child in branches if predicate is None), None)

    def process(self, record: AnyRecord) -> None:
        key, value = record[0], record[1]
        for predicate, child in self._branches:
            if predicate(key, value):
                self.forward(record, child)
                return
        if self._default is not None:
            self.forward(record, self._default)
