"""Stateless operators of streams. They call the user's function once for each record.

Records keep their headers and timestamps. An operator that hands on several rows calls `context.guarded(child)`: if one
row fails and the handler decides to go on, the next row follows.
Source: `KStreamMap`, `KStreamFlatMap`, `KStreamFlatMapValues`, `KStreamMapValues`, `KStreamFilter`, `KStreamPeek`,
`ForeachProcessor`, `KStreamBranch`, `PassThrough`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from streams_runtime.common.records import Headers
from streams_runtime.processors.context import NodeContext, Operator, Receiver
from streams_runtime.reporting.losses import DropReason


class KStreamMap(Operator):
    def __init__(self, mapper: Callable[[Any, Any], tuple[Any, Any]]) -> None:
        self._mapper = mapper

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        mapper = self._mapper

        def map_(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            new_key, new_value = mapper(key, value)
            child(new_key, new_value, timestamp_ms, headers)

        return map_


class KStreamSelectKey(Operator):
    """In Kafka a `KStreamMap` does this."""

    def __init__(self, selector: Callable[[Any, Any], Any]) -> None:
        self._selector = selector

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        selector = self._selector

        def select_key(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            child(selector(key, value), value, timestamp_ms, headers)

        return select_key


class KStreamFlatMap(Operator):
    def __init__(self, mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]]) -> None:
        self._mapper = mapper

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        mapper, hand_on = self._mapper, context.guarded(child)

        def flat_map(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            for new_key, new_value in mapper(key, value):
                hand_on(new_key, new_value, timestamp_ms, headers)

        return flat_map


class KStreamMapValues(Operator):
    def __init__(self, mapper: Callable[[Any], Any]) -> None:
        self._mapper = mapper

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        mapper = self._mapper

        def map_values(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            child(key, mapper(value), timestamp_ms, headers)

        return map_values


class KStreamMapValuesWithKey(Operator):
    def __init__(self, mapper: Callable[[Any, Any], Any]) -> None:
        self._mapper = mapper

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        mapper = self._mapper

        def map_values(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            child(key, mapper(key, value), timestamp_ms, headers)

        return map_values


class KStreamFlatMapValues(Operator):
    def __init__(self, mapper: Callable[[Any], Iterable[Any]]) -> None:
        self._mapper = mapper

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        mapper, hand_on = self._mapper, context.guarded(child)

        def flat_map_values(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            for new_value in mapper(value):
                hand_on(key, new_value, timestamp_ms, headers)

        return flat_map_values


class KStreamFlatMapValuesWithKey(Operator):
    def __init__(self, mapper: Callable[[Any, Any], Iterable[Any]]) -> None:
        self._mapper = mapper

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        mapper, hand_on = self._mapper, context.guarded(child)

        def flat_map_values(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            for new_value in mapper(key, value):
                hand_on(key, new_value, timestamp_ms, headers)

        return flat_map_values


class KStreamFilter(Operator):
    def __init__(self, predicate: Callable[[Any, Any], bool]) -> None:
        self._predicate = predicate

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        predicate = self._predicate

        def filter_(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            if predicate(key, value):
                child(key, value, timestamp_ms, headers)

        return filter_


class KStreamFilterNot(Operator):
    def __init__(self, predicate: Callable[[Any, Any], bool]) -> None:
        self._predicate = predicate

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        predicate = self._predicate

        def filter_not(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            if not predicate(key, value):
                child(key, value, timestamp_ms, headers)

        return filter_not


class NullKeyFilter(Operator):
    """Leaves out records without key before a repartition topic: the operation below the topic would drop them.

    Differs from Kafka: these records are counted, under a reason of their own. In Kafka a `KStreamFilter` leaves them
    out, and nothing counts them.
    """

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        def null_key_filter(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            if key is None:
                context.drop(DropReason.NULL_KEY_BEFORE_REPARTITION, "null key")
            else:
                child(key, value, timestamp_ms, headers)

        return null_key_filter


class KStreamPeek(Operator):
    def __init__(self, action: Callable[[Any, Any], object]) -> None:
        self._action = action

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        action = self._action

        def peek(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            action(key, value)
            child(key, value, timestamp_ms, headers)

        return peek


class ForeachProcessor(Operator):
    def __init__(self, action: Callable[[Any, Any], object]) -> None:
        self._action = action

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        action = self._action

        def for_each(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            action(key, value)

        return for_each


class KStreamBranch(Operator):
    """Hands a record to the first branch whose predicate is true, else to the default branch, if there is one.

    `branches`: a predicate and the name of a child for each branch. The default branch, which may stand anywhere
    among them, has the predicate None.
    """

    def __init__(self, branches: Sequence[tuple[Callable[[Any, Any], bool] | None, str]]) -> None:
        self._branches = [(predicate, child) for predicate, child in branches if predicate is not None]
        self._default = next((child for predicate, child in branches if predicate is None), None)

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        branches = [(predicate, context.child(name)) for predicate, name in self._branches]
        default = None if self._default is None else context.child(self._default)

        def branch(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            for predicate, chosen in branches:
                if predicate(key, value):
                    chosen(key, value, timestamp_ms, headers)
                    return
            if default is not None:
                default(key, value, timestamp_ms, headers)

        return branch


class PassThrough(Operator):
    """Hands each record on as it is: the node of a merge of streams, or of one branch of a split stream."""

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        return child
