"""From `bootstrap.servers` to a log: the one place that knows which implementations there are."""

from __future__ import annotations

import threading
from pathlib import Path

from assignor.errors import InputError
from streams_runtime.logs.base import Log
from streams_runtime.logs.embedded import EmbeddedLog
from streams_runtime.logs.in_memory import InMemoryLog

_CONFIG = "bootstrap.servers"
_IN_MEMORY: dict[str, InMemoryLog] = {}
_LOCK = threading.Lock()


def open_log(bootstrap_servers: str) -> Log:
    """`embedded:<directory>`: SQLite in a directory; `memory:<name>`: shared by all of this process that say the name.

    Raises InputError for anything else, LogError when the directory cannot be used.
    """
    kind, _, address = bootstrap_servers.partition(":")
    if address and kind == "embedded":
        return EmbeddedLog(Path(address))
    if address and kind == "memory":
        with _LOCK:
            return _IN_MEMORY.setdefault(address, InMemoryLog())
    raise _unknown(bootstrap_servers)


def cluster_provider_name(bootstrap_servers: str) -> str:
    """Under which name a coordinator, which is another process, looks at this log (`assignor.cluster_providers`).

    Raises InputError for a log that other processes cannot find: one in memory, or a relative directory, which each
    process would take from its own working directory.
    """
    kind, _, address = bootstrap_servers.partition(":")
    if address and kind == "memory":
        raise InputError(f"{bootstrap_servers!r} is in the memory of one process; no other one sees it", _CONFIG)
    if not address or kind != "embedded":
        raise _unknown(bootstrap_servers)
    if not Path(address).is_absolute():
        raise InputError(
            f"{bootstrap_servers!r} is relative, and each process has a working directory of its own; "
            f"from here it would be 'embedded:{Path(address).absolute()}'",
            _CONFIG,
        )
    return kind


def _unknown(bootstrap_servers: str) -> InputError:
    return InputError(
        f"must be 'embedded:<directory>' (or 'memory:<name>' in tests), not {bootstrap_servers!r};"
        " Kafka itself comes in a later release",
        _CONFIG,
    )
