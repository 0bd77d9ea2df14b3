"""The functions through which the records of a task go from node to node.

Each node of a task is one function, its receiver. It takes the key, the value, the timestamp and the headers of a
record, and calls the receivers of the nodes below it. A task makes them once, from the sinks upwards.

An error goes up to the nearest receiver that is guarded, which has the handler of processing errors decide. When that
goes on, so does the node above, as if the node that failed had done nothing. A node that has nothing more to do after
it has handed a record on calls the receiver below as it is: the error ends at a node above that has.
Source: `ProcessorNode.process` (KIP-1033).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any

from streams_runtime.common.records import Headers

Receiver = Callable[[Any, Any, int, Headers], None]
"""Takes key, value, timestamp in milliseconds and headers of a record. The value of a table's record is a `Change`."""

Children = Sequence[tuple[str, Receiver]]
"""The names and receivers of the nodes below a node, in their order. A node that names its parent twice is there twice.
"""

OnError = Callable[[Exception], bool]
"""Has the handler decide about an error of the record that is processed: whether the task goes on. False: the error
goes up. Raises what ends the record."""


def guarded(receiver: Receiver, on_error: OnError) -> Receiver:
    """For a node that goes on after it has handed a record to this receiver."""

    def guard(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        try:
            receiver(key, value, timestamp_ms, headers)
        except Exception as error:
            if not on_error(error):
                raise

    return guard


def fan_out(receivers: Sequence[Receiver], on_error: OnError) -> Receiver:
    """Hands a record to all of these, in their order. An error of one of several does not keep it from the others."""
    if not receivers:
        return ignore
    if len(receivers) == 1:
        return receivers[0]

    def each(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        for receiver in receivers:
            try:
                receiver(key, value, timestamp_ms, headers)
            except Exception as error:
                if not on_error(error):
                    raise

    return each


def ignore(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
    """Below a node that has no nodes below."""


class ReceiverNames:
    """Knows the node of each receiver, and so the node that an error came from.

    Each receiver runs a copy of its code, with the node's name as the name of the function. So the traceback of an
    error names the nodes on its way, for the user as well, and nothing has to be noted while a record is processed.
    """

    __slots__ = ("_nodes",)

    def __init__(self) -> None:
        self._nodes: dict[CodeType, str] = {}

    def named(self, receiver: Receiver, node: str) -> Receiver:
        """The receiver as that of this node. An operator that only passes records on gives the receiver below it, which
        keeps its name.
        """
        if not isinstance(receiver, FunctionType) or receiver.__code__ in self._nodes or receiver is ignore:
            return receiver
        code = receiver.__code__
        # the new constant tells both codes apart when the node has the name that the function had
        code = code.replace(co_name=node, co_consts=(*code.co_consts, ("node", node)))
        self._nodes[code] = node
        return FunctionType(code, receiver.__globals__, node, receiver.__defaults__, receiver.__closure__)

    def failed_node(self, error: BaseException) -> str:
        """The innermost node that the error has passed on its way; empty when it has passed none."""
        node, trace, caller = "", error.__traceback__, None
        while trace is not None:
            frame = trace.tb_frame
            if caller is not None and frame.f_back not in (None, caller):
                break  # the object was raised before, as by a cached future: here begins the trace of that time
            node, caller, trace = self._nodes.get(frame.f_code, node), frame, trace.tb_next
        return node
