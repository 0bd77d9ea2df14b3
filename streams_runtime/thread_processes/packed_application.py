"""An application as bytes for the processes of its stream threads, packed once for each instance.

Rules: handlers that the instance calls in its own process stay there: they may hold locks, files and sockets. Whoever
cannot come along is named. Source: none; in Kafka a JVM runs its threads side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from streams_runtime.application import Application, shut_down_client
from streams_runtime.common.clock import Clock
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.logs.opening import is_in_memory
from streams_runtime.thread_processes.messages import PackedParts
from streams_runtime.thread_processes.pickling import NoCloudpickle, pickled, unpickled

_WANTED = "stream.threads.run.as=processes"


def packed(application: Application, clock: Clock) -> bytes:
    """Raises StreamsRuntimeError that names what cannot come along."""
    configs = application.configs
    if is_in_memory(configs.bootstrap_servers):
        raise StreamsRuntimeError(
            f"{_WANTED}: the log {configs.bootstrap_servers!r} is in the memory of this process, where no other one "
            "finds it; use an embedded log or Kafka, or stream.threads.run.as=threads"
        )
    travelling = replace(
        application, uncaught_exception_handler=shut_down_client, restore_listener_factory=None, state_listener=None
    )
    try:
        return pickled(PackedParts(travelling, clock))
    except Exception as error:  # objects of the user's program may raise anything when they are pickled
        name, reason = _first_that_stays(travelling, clock) or ("the application", error)
        remedy = (
            "" if isinstance(reason, NoCloudpickle) else ". Make locks, connections and clients in a processor's init"
        )
        raise StreamsRuntimeError(
            f"{_WANTED}: {name} cannot be pickled for another process: {type(reason).__name__}: {reason}{remedy}"
        ) from error


def unpacked(data: bytes) -> PackedParts:
    """Raises StreamsRuntimeError."""
    try:
        parts: PackedParts = unpickled(data)
    except Exception as error:
        raise StreamsRuntimeError(
            f"{_WANTED}: the application cannot be made again in another process: {type(error).__name__}: {error}. "
            "Its modules have to be where this process finds them"
        ) from error
    return parts


def _first_that_stays(application: Application, clock: Clock) -> tuple[str, Exception] | None:
    for name, part in _parts(application, clock):
        try:
            pickled(part)
        except Exception as error:
            return name, error
    return None


def _parts(application: Application, clock: Clock) -> Iterator[tuple[str, object]]:
    definition = application.topology.definition()
    for name, node in definition.nodes.items():
        yield f"node {name!r} of the topology", node
    for name, store in definition.stores.items():
        yield f"store {name!r}", store
    yield "processing_exception_handler", application.processing_exception_handler
    yield "deserialization_exception_handler", application.deserialization_exception_handler
    yield "the topology", application.topology
    yield "rocksdb.config.setter", application.configs.rocksdb_config_setter
    yield "the configs", application.configs
    yield "the clock of the instance's options", clock
