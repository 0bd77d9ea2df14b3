"""Opens the log that `bootstrap.servers` names. Only this file knows all implementations of a log."""

import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from assignor.errors import InputError
from assignor.names.printable import shown_address
from streams_runtime.logs.base import Log
from streams_runtime.logs.embedded import LOG_FILE_NAME, EmbeddedLog, Synchronous
from streams_runtime.logs.in_memory import InMemoryLog
from streams_runtime.logs.kafka.log_settings import LINGER_MS, linger_ms

_CONFIG = "bootstrap.servers"
_SERVERS = re.compile(r"[^\s:,@]+:\d{1,5}(\s*,|\Z)|\[[^]]+\]:\d")  # matches the beginning of a list of host:port
_PREFIX = "kafka:"
_SYNCHRONOUS = "synchronous"
_OPTION = re.compile(r"(.+)\?([A-Za-z_.]+)=([^/?]*)")
"""The directory of an embedded log, with an option after it."""
_IN_MEMORY: dict[str, InMemoryLog] = {}
_LOCK = threading.Lock()


def open_log(bootstrap_servers: str, properties: Mapping[str, str] | None = None, *, create: bool = True) -> Log:
    """Opens a log: Kafka for `host:port,...` or `kafka:host:port,...`; a SQLite file in the directory for
    `embedded:<directory>`; for `memory:<name>` a log that all users of that name in this process share. With
    `?synchronous=FULL` after the directory, each commit survives a power loss. By default (`NORMAL`) a commit is only
    certain to survive the end of processes.

    `properties`: properties of Kafka's clients (`security.protocol`, ...). The embedded and the in-memory log accept
    only `linger.ms`; the callers of their producers have to wait this time before they send. `create`: create an
    embedded log if there is none. Raises InputError for any other address, and, without `create`, for a directory
    without a log; LogError if the directory cannot be used.
    """
    servers = kafka_servers(bootstrap_servers)
    if servers is not None:
        return _kafka_log(servers, properties)
    address = _local_address(bootstrap_servers)
    linger_ms(properties)  # raises InputError
    unknown = (properties or {}).keys() - {LINGER_MS}
    if unknown:
        raise InputError(
            f"{min(unknown)!r} is a property of Kafka's clients, not of {shown_address(bootstrap_servers)!r}", _CONFIG
        )
    if address.kind == "memory":
        with _LOCK:
            return _IN_MEMORY.setdefault(address.name, InMemoryLog())
    directory = Path(address.name)
    if not create:
        _check_log_is_there(directory)
    return EmbeddedLog(directory, synchronous=address.synchronous)


def kafka_servers(bootstrap_servers: str) -> str | None:
    """`host:port,...` of a Kafka cluster; None for another log. A host may be called `kafka`, as in `kafka:9092`."""
    servers = bootstrap_servers.strip()
    without = servers.removeprefix(_PREFIX)
    if without != servers and _SERVERS.match(without):
        return without
    return servers if _SERVERS.match(servers) else None


def cluster_provider_name(bootstrap_servers: str) -> str:
    """The cluster provider with which a coordinator, another process, reads this log (`assignor.cluster_providers`).

    Raises InputError for a log that other processes cannot find: one in memory, or one in a relative directory, which
    every process would look for in its own working directory.
    """
    if kafka_servers(bootstrap_servers) is not None:
        return "kafka"
    kind, name, _ = _local_address(bootstrap_servers)
    if kind == "memory":
        raise InputError(f"{bootstrap_servers!r} is in the memory of one process, so no other process sees it", _CONFIG)
    if not Path(name).is_absolute():
        raise InputError(
            f"{bootstrap_servers!r} is relative, and each process has its own working directory; "
            f"from here it would be 'embedded:{Path(bootstrap_servers.removeprefix('embedded:')).absolute()}'",
            _CONFIG,
        )
    return kind


def cluster_address(bootstrap_servers: str) -> str:
    """The address for other processes, without the options that affect only this process. Raises InputError."""
    servers = kafka_servers(bootstrap_servers)
    if servers is not None:
        return servers
    kind, name, _ = _local_address(bootstrap_servers)
    return f"{kind}:{name}"


class _LocalAddress(NamedTuple):
    """The parsed address of a log that is not Kafka. `kind`: embedded or memory. `name`: the name of a log in memory,
    or the directory of an embedded log. `synchronous`: the option after the directory.
    """

    kind: str
    name: str
    synchronous: Synchronous = Synchronous.NORMAL


def _local_address(bootstrap_servers: str) -> _LocalAddress:
    """Parses an address of an embedded or in-memory log. Raises InputError for another address."""
    kind, _, name = bootstrap_servers.partition(":")
    if not name or kind not in ("embedded", "memory"):
        raise InputError(
            f"must be 'host:port,...' of Kafka, or 'embedded:<directory>' (or 'memory:<name>' in tests), "
            f"not {shown_address(bootstrap_servers)!r}",
            _CONFIG,
        )
    found = _OPTION.fullmatch(name) if kind == "embedded" else None
    if found is None:
        return _LocalAddress(kind, name)
    directory, option, value = found.groups()
    if option != _SYNCHRONOUS:
        raise InputError(f"{option!r} is no option of an embedded log: it has '{_SYNCHRONOUS}' only", _CONFIG)
    if value not in list(Synchronous):
        raise InputError(f"{_SYNCHRONOUS}={value!r}: must be one of {', '.join(Synchronous)}", _CONFIG)
    return _LocalAddress(kind, directory, Synchronous(value))


def _check_log_is_there(directory: Path) -> None:
    if not directory.exists():
        raise InputError(f"there is no directory {directory}; `assignor topics create` makes it, and a log in it")
    if not (directory / LOG_FILE_NAME).is_file():
        raise InputError(f"{directory} has no log in it ({LOG_FILE_NAME}); `assignor topics create` makes one")


def _kafka_log(servers: str, properties: Mapping[str, str] | None) -> Log:
    try:
        from streams_runtime.logs.kafka.kafka_log import KafkaLog
    except ModuleNotFoundError as error:
        raise InputError(
            f"{servers!r} is a Kafka cluster, and its client is not installed: pip install 'assignor[kafka]' ({error})",
            _CONFIG,
        ) from error
    return KafkaLog(servers, properties)
