"""The view of a global store that the processors of Streams tasks get. The view has the reading methods of the store.

A global store is filled by its own processor on the global thread. If other processors changed the store, the instances
of the application would have different contents. Source: `AbstractReadOnlyDecorator`.
"""

from typing import Any

from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.state_stores.state_store import StateStore

_CHANGES = frozenset(
    [
        "put",
        "put_all",
        "put_if_absent",
        "put_many",
        "delete",
        "remove",
        "open",
        "rebind",
        "restore",
        "commit",
        "flush",
        "close",
    ]
)


class ReadOnlyStore:
    """A store of any kind, without the methods that change it. Calls of these methods raise StreamsRuntimeError."""

    def __init__(self, store: StateStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name in _CHANGES:
            raise StreamsRuntimeError(
                f"global store {self._store.name} is read only: only its own processor may call `{name}`"
            )
        return getattr(self._store, name)
