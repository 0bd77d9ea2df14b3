"""Forwards the result of each window once, when stream time has closed the window.

The close time is stream time minus the grace period. If a record advances the close time, the windows that the close
time has passed are forwarded in the order of time, with the headers of that record. The last close time is part of the
metadata of the committed offsets, so that the next owner of a task forwards no window again.
As in Kafka, the store may have dropped a closed window before the window is forwarded, because a record that advances
stream time first expires old windows. A longer retention (`Materialized.retention_ms`) prevents this loss: the default
retention plus the longest time without a record.
Source: `EmitStrategy.onWindowClose`; `AbstractKStreamTimeWindowAggregateProcessor.maybeForwardFinalResult`,
`KStreamSessionWindowAggregate.maybeForwardFinalResult`; KIP-825.
Differs from Kafka: Kafka searches for closed windows at most once a second of the wall clock, so that its results
depend on the speed of processing.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from streams_runtime.common.records import Headers
from streams_runtime.dsl.table_operators import StoredTableOperator
from streams_runtime.processors.context import NodeContext, Receiver
from streams_runtime.state_stores.state_store import Windowed

NO_CLOSE_TIME = -1
"""The last close time before the first window was forwarded."""


class WindowedTableOperator(StoredTableOperator):
    """The base of the operators of windowed aggregations of a stream."""

    window_grace_ms: int

    @abstractmethod
    def range_to_emit(self, last_ms: int, close_ms: int) -> tuple[int, int] | None:
        """Returns the bounds of the windows to forward, both inclusive; None if there are none. `last_ms`: the last
        close time. `close_ms`: the present close time.
        """

    def emitting_on_close(
        self,
        update: Callable[[Any, Any, int, Headers], bool],
        read: Callable[[int, int], Iterable[tuple[Windowed[Any], int, Any]]],
        child: Receiver,
        context: NodeContext,
    ) -> Receiver:
        """Returns a receiver that forwards closed windows to `child`. `update`: updates the windows of a record; it
        returns False if the record closes no windows. `read`: a function that returns the windowed keys, timestamps and
        values between two bounds, in the order of time.
        """
        name, open_ms, range_to_emit = self.store.name, self.window_grace_ms, self.range_to_emit
        forward = context.guarded(child)
        close_times = context.processor_metadata
        last_ms = close_times.get(name, NO_CLOSE_TIME)

        def update_and_emit(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            nonlocal last_ms
            if not update(key, value, timestamp_ms, headers):
                return
            close_ms = context.stream_time_ms - open_ms
            if close_ms <= last_ms:
                return
            bounds = range_to_emit(last_ms, close_ms)
            if bounds is None or bounds[1] < 0:
                return
            for window, newest_ms, result in read(*bounds):
                forward(window, (result, None), newest_ms, headers)
            last_ms = close_times[name] = close_ms

        return update_and_emit
