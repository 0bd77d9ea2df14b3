"""Stateless operators of streams, which call the user's function with each record, or with a batch of records as
columns.

Each function in this module returns the receiver of an operator. The arguments of these functions are the user's
function, and the arguments `child` and `context` of `Operator.connect`. Records keep their headers and timestamps.
Operators that make several records from one record use `context.guarded(child)`. So if a node below fails for one new
record and the exception handler skips this record, the operator still forwards the other new records.
Source: `KStreamMap`, `KStreamFlatMap`, `KStreamFlatMapValues`, `KStreamMapValues`, `KStreamFilter`, `KStreamPeek`,
`ForeachProcessor`, `KStreamBranch`, `PassThrough`.

Batches: the docstring of `Processor` states which records form a batch. The result for a record must not depend on the
other records of its batch, because a batch can end after any record. The records of a batch keep their headers. If the
function returns no timestamps, the records also keep their timestamps. If the function raises an error for a batch, it
is called again, once for each record. If the call with one record fails, the exception handler decides about this
record. If `retries_one_by_one` is False, there are no further calls, and the exception handler decides about each
record of the batch. If the result has the wrong shape (`WrongBatchResult`), the stream thread ends, and no exception
handler is called. Kafka has no operations on batches. The result for each record is the result of Kafka's `KStreamMap`,
`KStreamMapValues` or `KStreamFilter`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from streams_runtime.common.errors import WrongBatchResult
from streams_runtime.common.losses import DropReason
from streams_runtime.common.record_columns import RecordColumns, column
from streams_runtime.common.records import Headers
from streams_runtime.processors.api import Processor, ProcessorContext
from streams_runtime.processors.context import NodeContext, Operator, Receiver


class StreamOperator(Operator):
    """An operator with a receiver from one of this module's functions. `receiver`: the function that makes the
    receiver. `arguments`: the arguments of this function before `child` and `context`.
    """

    def __init__(self, receiver: Callable[..., Receiver], *arguments: Any) -> None:
        self._receiver = receiver
        self._arguments = arguments

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        return self._receiver(*self._arguments, child, context)


def mapping(mapper: Callable[[Any, Any], tuple[Any, Any]], child: Receiver, context: NodeContext) -> Receiver:
    def map_(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        new_key, new_value = mapper(key, value)
        child(new_key, new_value, timestamp_ms, headers)

    return map_


def selecting_keys(selector: Callable[[Any, Any], Any], child: Receiver, context: NodeContext) -> Receiver:
    """Gives records new keys. Kafka uses a `KStreamMap` for `selectKey`."""

    def select_key(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        child(selector(key, value), value, timestamp_ms, headers)

    return select_key


def flat_mapping(
    mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]], child: Receiver, context: NodeContext
) -> Receiver:
    hand_on = context.guarded(child)

    def flat_map(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        for new_key, new_value in mapper(key, value):
            hand_on(new_key, new_value, timestamp_ms, headers)

    return flat_map


def mapping_values(mapper: Callable[[Any], Any], child: Receiver, context: NodeContext) -> Receiver:
    def map_values(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        child(key, mapper(value), timestamp_ms, headers)

    return map_values


def mapping_values_with_key(mapper: Callable[[Any, Any], Any], child: Receiver, context: NodeContext) -> Receiver:
    def map_values(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        child(key, mapper(key, value), timestamp_ms, headers)

    return map_values


def flat_mapping_values(mapper: Callable[[Any], Iterable[Any]], child: Receiver, context: NodeContext) -> Receiver:
    hand_on = context.guarded(child)

    def flat_map_values(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        for new_value in mapper(value):
            hand_on(key, new_value, timestamp_ms, headers)

    return flat_map_values


def flat_mapping_values_with_key(
    mapper: Callable[[Any, Any], Iterable[Any]], child: Receiver, context: NodeContext
) -> Receiver:
    hand_on = context.guarded(child)

    def flat_map_values(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        for new_value in mapper(key, value):
            hand_on(key, new_value, timestamp_ms, headers)

    return flat_map_values


def filtering(predicate: Callable[[Any, Any], bool], child: Receiver, context: NodeContext) -> Receiver:
    def filter_(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        if predicate(key, value):
            child(key, value, timestamp_ms, headers)

    return filter_


def filtering_out(predicate: Callable[[Any, Any], bool], child: Receiver, context: NodeContext) -> Receiver:
    def filter_not(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        if not predicate(key, value):
            child(key, value, timestamp_ms, headers)

    return filter_not


def leaving_out_null_keys(child: Receiver, context: NodeContext) -> Receiver:
    """Drops records without key before a repartition topic, because the operation after the topic would drop them.

    Differs from Kafka: this operator counts the dropped records, with a separate reason. In Kafka, a `KStreamFilter`
    drops records without key, and does not count them.
    """

    def null_key_filter(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        if key is None:
            context.drop(DropReason.NULL_KEY_BEFORE_REPARTITION, "null key")
        else:
            child(key, value, timestamp_ms, headers)

    return null_key_filter


def peeking(action: Callable[[Any, Any], object], child: Receiver, context: NodeContext) -> Receiver:
    def peek(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        action(key, value)
        child(key, value, timestamp_ms, headers)

    return peek


def ending(action: Callable[[Any, Any], object], child: Receiver, context: NodeContext) -> Receiver:
    def for_each(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        action(key, value)

    return for_each


def printing(
    path: Path | None, label: str, text: Callable[[Any, Any], object] | None, child: Receiver, context: NodeContext
) -> Receiver:
    """Writes a line for each record to the end of a file, or to stdout. Forwards nothing.

    Source: `PrintForeachAction`. Differs from Kafka: an existing file is continued.
    """
    file = None
    if path is not None:
        file = path.open("a", encoding="utf-8", buffering=1)  # whole lines, as several tasks may write to the file
        context.call_on_close(file.close)

    def print_record(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        print(f"[{label}]: {f'{key}, {value}' if text is None else text(key, value)}", file=file, flush=True)

    return print_record


def branching(
    branches: Sequence[tuple[Callable[[Any, Any], bool] | None, str]], child: Receiver, context: NodeContext
) -> Receiver:
    """Forwards a record to the first branch whose predicate accepts the record. If no predicate accepts the record, the
    record goes to the default branch. Without a default branch, the record is dropped.

    `branches`: the predicate and the child's name for each branch. The predicate of the default branch is None. The
    default branch may have any index.
    """
    chosen_by = [(predicate, context.child(name)) for predicate, name in branches if predicate is not None]
    default = next((context.child(name) for predicate, name in branches if predicate is None), None)

    def branch(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        for predicate, chosen in chosen_by:
            if predicate(key, value):
                chosen(key, value, timestamp_ms, headers)
                return
        if default is not None:
            default(key, value, timestamp_ms, headers)

    return branch


def passing_on(child: Receiver, context: NodeContext) -> Receiver:
    """Forwards each record unchanged. Used for merges of streams and for the branches of a split stream."""
    return child


AnyColumns = RecordColumns[Any, Any]


class BatchOperationProcessor(Processor[Any, Any], ABC):
    """The processor of an operation on batches.

    `operation`: the name of the operation. `expected_result`: a text for error messages, which says what the function
    has to return.
    """

    operation = ""
    expected_result = ""

    def __init__(self, function: Callable[[AnyColumns], Any], retries_one_by_one: bool) -> None:
        self._function = function
        self.retries_one_by_one = retries_one_by_one

    def init(self, context: ProcessorContext) -> None:
        self._forward_batch = context.forward_batch

    def process_batch(self, batch: AnyColumns) -> None:
        returned = self._function(batch)
        try:
            rows = self.rows(batch, returned)
        except WrongBatchResult as error:
            raise WrongBatchResult(
                f"the function of {self.operation} has returned what cannot be used ({error}): {self.expected_result}"
            ) from error
        self._forward_batch(rows)

    @abstractmethod
    def rows(self, batch: AnyColumns, returned: Any) -> AnyColumns:
        """Makes the rows to forward. `returned`: the result of the user's function. Raises WrongBatchResult if
        `returned` cannot be used.
        """


class KStreamMapBatches(BatchOperationProcessor):
    operation = "map_batches"
    expected_result = (
        "return a pair of columns (keys, values) with a row for each record, or RecordColumns, which may have any "
        "number of rows: `batch.take(...)`, `batch.with_values(...)` or `RecordColumns(keys, values, timestamps_ms)`"
    )

    def rows(self, batch: AnyColumns, returned: Any) -> AnyColumns:
        if isinstance(returned, RecordColumns):
            return returned
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise WrongBatchResult(f"a {type(returned).__name__}")
        keys, values = returned
        return batch.with_keys(keys).with_values(values)


class KStreamMapValuesBatches(BatchOperationProcessor):
    operation = "map_values_batches"
    expected_result = "return a column with a value for each record, in the order of the batch"

    def rows(self, batch: AnyColumns, returned: Any) -> AnyColumns:
        if isinstance(returned, RecordColumns):
            raise WrongBatchResult("RecordColumns, of which the keys would not count")
        return batch.with_values(returned)


class KStreamFilterBatches(BatchOperationProcessor):
    operation = "filter_batches"
    expected_result = "return a column with True or False for each record, in the order of the batch"

    def rows(self, batch: AnyColumns, returned: Any) -> AnyColumns:
        mask = column("flags", returned, len(batch)).as_list()
        for flag in mask:
            # only True and False are accepted, because Python treats NaN and many other values as true
            if flag is not True and flag is not False:
                raise WrongBatchResult(f"{flag!r} among the flags")
        return batch.where(mask)
