"""The operations of streams that call the user's function with a batch of records as columns.

Rules: `Processor` says which records make a batch. A function treats each row alone, so that its results do not depend
on where a batch ends. Records keep their headers, and their timestamps if the function gives no others. If the function
raises an error, it is called again with one record at a time, and the handler decides about each record for which this
call fails as well; with `retries_one_by_one=False`, the handler decides about each record of the batch. A result of the
wrong shape (`WrongBatchResult`) ends the thread, and no handler is called.

Source: none in Kafka. Each row is treated as by `KStreamMap`, `KStreamMapValues` and `KStreamFilter`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from streams_runtime.common.errors import WrongBatchResult
from streams_runtime.common.record_columns import RecordColumns, column
from streams_runtime.processors.api import Processor, ProcessorContext

AnyColumns = RecordColumns[Any, Any]


class BatchOperationProcessor(Processor[Any, Any], ABC):
    """The processor of one of these operations.

    `operation`: the name of the operation. `expected_result`: the end of an error message, which says what the function
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
        """The rows to forward. Raises WrongBatchResult if they cannot be made of `returned`."""


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
            if flag is not True and flag is not False:  # NaN, for example, which counts as true
                raise WrongBatchResult(f"{flag!r} among the flags")
        return batch.where(mask)
