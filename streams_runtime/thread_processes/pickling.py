"""The one place that knows how objects of a user's program get into another process.

Rules: what pickle takes along by name is not copied. For functions and classes without a name that the other process
could find (lambdas, closures, what stands in a script or a notebook), cloudpickle takes their code along: its own
package, or the one that PySpark brings. Bytes of either kind are read by `pickle.loads`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from importlib import import_module
from typing import Any

from streams_runtime.common.errors import StreamsRuntimeError

_CLOUDPICKLE = ("cloudpickle", "pyspark.cloudpickle")
_SCRIPT = b"__main__"
"""The module that is another one in each process."""


class NoCloudpickle(StreamsRuntimeError):
    """Pickle alone cannot take the object along, and cloudpickle is not installed."""


def pickled(value: object) -> bytes:
    """Raises whatever objects raise when they are pickled; NoCloudpickle."""
    try:
        data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # objects of the user's program may raise anything
        return _by_cloudpickle(value, error)
    return _by_cloudpickle(value, None) if _SCRIPT in data else data


def unpickled(data: bytes) -> Any:
    """Raises whatever objects raise when they are made; only for bytes of a process of this instance."""
    return pickle.loads(data)  # noqa: S301 (they come over a pipe that nobody else has)


def _by_cloudpickle(value: object, why: Exception | None) -> bytes:
    dumps = _cloudpickle()
    if dumps is None:
        said = "it belongs to a script" if why is None else f"{type(why).__name__}: {why}"
        raise NoCloudpickle(f"{said}; pip install cloudpickle, which takes such objects along") from why
    return dumps(value)


def _cloudpickle() -> Callable[[object], bytes] | None:
    for name in _CLOUDPICKLE:
        try:
            found: Callable[[object], bytes] = import_module(name).dumps
        except ModuleNotFoundError:
            continue
        return found
    return None
