"""The options of the joins of a stream. Source: `Joined`, `StreamJoined`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypedDict, TypeVar

from assignor.errors import TopologyError
from streams_runtime.common.records import K, V
from streams_runtime.dsl.materialized import StoreArgument
from streams_runtime.dsl.windows import JoinWindows
from streams_runtime.serdes import Serde

VT = TypeVar("VT")

_OPTIONS_OF_JOINS = {
    "stream": ("windows", "other_value_serde", "store"),
    "table": ("grace_ms",),
    "global table": ("key_selector",),
}
"""The options that only one kind of join has, by the kind of its other input."""


class StreamJoinOptions(TypedDict, Generic[K, V, VT], total=False):
    """The options of a join of two streams.

    `with_key`: True if the joiner gets the key as its first argument. `key_serde`, `value_serde`: the serdes of the
    stream's repartition topic, if the join needs one, and of the stores and buffers of the join. `other_value_serde`:
    the serde of the other stream in its repartition topic and its store. `store`: the beginning of the names of both
    stores, or a `Materialized`; these stores have no record cache. `name`: the name of the join's node.
    """

    with_key: bool
    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    other_value_serde: Serde[VT] | None
    store: StoreArgument
    name: str | None


class JoinOptions(StreamJoinOptions[K, V, VT], total=False):
    """The options of a join of a stream. `other_value_serde` and `store` are for a join with a stream only.

    `grace_ms`, for a join with a versioned table: the time for which each record waits in a buffer before it is joined
    (KIP-923); None to join records at once. `key_selector`, for a join with a global table: a function (key, value)
    that returns the key of the table's entry. The stream is not repartitioned then.
    """

    grace_ms: int | None
    key_selector: Callable[[K, V], Any] | None


@dataclass(frozen=True, slots=True)
class GivenJoin:
    """The arguments of a join of a stream. `JoinOptions` describes them. None: the option is not given.

    `keeps_left`, `keeps_right`: True if a record of this side is joined with None if it has no partner. Only an outer
    join keeps the records of the right side.
    """

    windows: JoinWindows | None
    with_key: bool = False
    key_serde: Serde[Any] | None = None
    value_serde: Serde[Any] | None = None
    other_value_serde: Serde[Any] | None = None
    store: StoreArgument = None
    name: str | None = None
    grace_ms: int | None = None
    key_selector: Callable[[Any, Any], Any] | None = None
    keeps_left: bool = False
    keeps_right: bool = False

    def check(self, operation: str, kind: str) -> None:
        """Raises TopologyError if an option is given that a join with this kind of input does not have."""
        for other_kind, options in _OPTIONS_OF_JOINS.items():
            for option in options:
                if other_kind != kind and getattr(self, option) is not None:
                    raise TopologyError(
                        f"Invalid topology: {operation} has the option {option} only with a {other_kind}, "
                        f"not with a {kind}"
                    )
