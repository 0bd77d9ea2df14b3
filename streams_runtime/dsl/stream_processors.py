"""The stateless operations of streams, one small processor each. They call the user's function once for each record.

Headers and timestamps stay. Source: `KStreamMap`, `KStreamFlatMap`, `KStreamFlatMapValues`, `KStreamMapValues`,
`KStreamFilter`, `KStreamPeek`, `ForeachProcessor`, `KStreamBranch`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from streams_runtime.common.records import Record
from streams_runtime.dsl.change import value_of_change
from streams_runtime.dsl.forwarding import ForwardingProcessor
from streams_runtime.processors.api import Processor
from streams_runtime.processors.fused_loop import Given, LoopWriter
from streams_runtime.reporting.losses import DropReason

AnyRecord = Record[Any, Any]


class KStreamMap(ForwardingProcessor[Any, Any]):
    def __init__(self, mapper: Callable[[Any, Any], tuple[Any, Any]]) -> None:
        super().__init__()
        self._mapper = mapper

    def process(self, record: AnyRecord) -> None:
        key, value, timestamp_ms, headers = record
        key, value = self._mapper(key, value)
        self.forward(Record(key, value, timestamp_ms, headers))

    def fuse(self, loop: LoopWriter, given: Given) -> bool:
        if given.old:
            return False
        key, value = loop.new("key"), loop.new("value")
        loop.line(f"{key}, {value} = {loop.bind('mapper', self._mapper)}({given.key}, {given.value})")
        loop.forward(Given(key, value, given.timestamp_ms))
        return True


class KStreamSelectKey(ForwardingProcessor[Any, Any]):
    """In Kafka a `KStreamMap` does this."""

    def __init__(self, selector: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self._selector = selector

    def process(self, record: AnyRecord) -> None:
        key, value, timestamp_ms, headers = record
        self.forward(Record(self._selector(key, value), value, timestamp_ms, headers))

    def fuse(self, loop: LoopWriter, given: Given) -> bool:
        if given.old:
            return False
        key = loop.new("key")
        loop.line(f"{key} = {loop.bind('selector', self._selector)}({given.key}, {given.value})")
        loop.forward(given._replace(key=key))
        return True


class KStreamFlatMap(ForwardingProcessor[Any, Any]):
    def __init__(self, mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]]) -> None:
        super().__init__()
        self._mapper = mapper

    def process(self, record: AnyRecord) -> None:
        key, value, timestamp_ms, headers = record
        forward = self.forward
        for new_key, new_value in self._mapper(key, value):
            forward(Record(new_key, new_value, timestamp_ms, headers))

    def fuse(self, loop: LoopWriter, given: Given) -> bool:
        if given.old:
            return False
        key, value = loop.new("key"), loop.new("value")
        mapper = loop.bind("mapper", self._mapper)
        with loop.block(f"for {key}, {value} in {mapper}({given.key}, {given.value}):"):
            loop.forward(Given(key, value, given.timestamp_ms))
        return True


class KStreamMapValues(ForwardingProcessor[Any, Any]):
    def __init__(self, mapper: Callable[[Any], Any]) -> None:
        super().__init__()
        self._mapper = mapper

    def process(self, record: AnyRecord) -> None:
        key, value, timestamp_ms, headers = record
        self.forward(Record(key, self._mapper(value), timestamp_ms, headers))

    def fuse(self, loop: LoopWriter, given: Given) -> bool:
        if given.old:
            if self._mapper is not value_of_change:
                return False
            loop.forward(Given(given.key, given.value, given.timestamp_ms))
            return True
        value = loop.new("value")
        loop.line(f"{value} = {loop.bind('mapper', self._mapper)}({given.value})")
        loop.forward(given._replace(value=value))
        return True


class KStreamMapValuesWithKey(ForwardingProcessor[Any, Any]):
    def __init__(self, mapper: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self._mapper = mapper

    def process(self, record: AnyRecord) -> None:
        key, value, timestamp_ms, headers = record
        self.forward(Record(key, self._mapper(key, value), timestamp_ms, headers))

    def fuse(self, loop: LoopWriter, given: Given) -> bool:
        if given.old:
            return False
        value = loop.new("value")
        loop.line(f"{value} = {loop.bind('mapper', self._mapper)}({given.key}, {given.value})")
        loop.forward(given._replace(value=value))
        return True


class KStreamFlatMapValues(ForwardingProcessor[Any, Any]):
    def __init__(self, mapper: Callable[[Any], Iterable[Any]]) -> None:
        super().__init__()
        self._mapper = mapper

    def process(self, record: AnyRecord) -> None:
        key, value, timestamp_ms, headers = record
        forward = self.forward
        for new_value in self._mapper(value):
            forward(Record(key, new_value, timestamp_ms, headers))

    def fuse(self, loop: LoopWriter, given: Given) -> bool:
        if given.old:
            return False
        value = loop.new("value")
        with loop.block(f"for {value} in {loop.bind('mapper', self._mapper)}({given.value}):"):
            loop.forward(given._replace(value=value))
        return True


class KStreamFlatMapValuesWithKey(ForwardingProcessor[Any, Any]):
    def __init__(self, mapper: Callable[[Any, Any], Iterable[Any]]) -> None:
        super().__init__()
        self._mapper = mapper

    def process(self, record: AnyRecord) -> None:
        key, value, timestamp_ms, headers = record
        forward = self.forward
        for new_value in self._mapper(key, value):
            forward(Record(key, new_value, timestamp_ms, headers))

    def fuse(self, loop: LoopWriter, given: Given) -> bool:
        if given.old:
            return False
        value = loop.new("value")
        with loop.block(f"for {value} in {loop.bind('mapper', self._mapper)}({given.key}, {given.value}):"):
            loop.forward(given._replace(value=value))
        return True


class KStreamFilter(ForwardingProcessor[Any, Any]):
    def __init__(self, predicate: Callable[[Any, Any], bool]) -> None:
        super().__init__()
        self._predicate = predicate

    def process(self, record: AnyRecord) -> None:
        if self._predicate(record[0], record[1]):
            self.forward(record)

    def fuse(self, loop: LoopWriter, given: Given) -> bool:
        if given.old:
            return False
        with loop.block(f"if {loop.bind('predicate', self._predicate)}({given.key}, {given.value}):"):
            loop.forward(given)
        return True


class KStreamFilterNot(ForwardingProcessor[Any, Any]):
    def __init__(self, predicate: Callable[[Any, Any], bool]) -> None:
        super().__init__()
        self._predicate = predicate

    def process(self, record: AnyRecord) -> None:
        if not self._predicate(record[0], record[1]):
            self.forward(record)

    def fuse(self, loop: LoopWriter, given: Given) -> bool:
        if given.old:
            return False
        with loop.block(f"if not {loop.bind('predicate', self._predicate)}({given.key}, {given.value}):"):
            loop.forward(given)
        return True


class NullKeyFilter(ForwardingProcessor[Any, Any]):
    """Before a repartition topic: a record without key would only be dropped after it.

    Differs from Kafka: it is counted, but not among the dropped records. In Kafka a plain filter takes such records
    out, and nothing counts them.
    """

    def process(self, record: AnyRecord) -> None:
        if record[0] is None:
            self.drop(DropReason.NULL_KEY_BEFORE_REPARTITION, "null key")
            return
        self.forward(record)

    def fuse(self, loop: LoopWriter, given: Given) -> bool:
        with loop.block(f"if {given.key} is None:"):
            loop.remember_position()
            reason = loop.bind("reason", DropReason.NULL_KEY_BEFORE_REPARTITION)
            loop.line(f"{loop.bind('drop', self.drop)}({reason}, 'null key')")
        with loop.block("else:"):
            loop.forward(given)
        return True


class KStreamPeek(ForwardingProcessor[Any, Any]):
    def __init__(self, action: Callable[[Any, Any], object]) -> None:
        super().__init__()
        self._action = action

    def process(self, record: AnyRecord) -> None:
        self._action(record[0], record[1])
        self.forward(record)

    def fuse(self, loop: LoopWriter, given: Given) -> bool:
        if given.old:
            return False
        loop.line(f"{loop.bind('action', self._action)}({given.key}, {given.value})")
        loop.forward(given)
        return True


class ForeachProcessor(Processor[Any, Any]):
    def __init__(self, action: Callable[[Any, Any], object]) -> None:
        self._action = action

    def process(self, record: AnyRecord) -> None:
        self._action(record[0], record[1])

    def fuse(self, loop: LoopWriter, given: Given) -> bool:
        if given.old:
            return False
        loop.line(f"{loop.bind('action', self._action)}({given.key}, {given.value})")
        return True


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

    def fuse(self, loop: LoopWriter, given: Given) -> bool:
        if given.old:
            return False
        word = "if"
        for predicate, child in self._branches:
            with loop.block(f"{word} {loop.bind('predicate', predicate)}({given.key}, {given.value}):"):
                loop.forward(given, child)
            word = "elif"
        if not self._branches:
            if self._default is None:
                return False
            loop.forward(given, self._default)
        elif self._default is not None:
            with loop.block("else:"):
                loop.forward(given, self._default)
        return True
