"""Opens the log at the address `bootstrap.servers`. Only this file imports all implementations of a log."""

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
_SERVERS = re.compile(r"[^\s:,@]+:\d{1,5}(\s*,|\Z)|\[[^]]+\]:\d")  # matches the beginning of an address `host:port,...`
_PREFIX = "kafka:"
_SYNCHRONOUS = "synchronous"
_OPTION = re.compile(r"(.+)\?([A-Za-z_.]+)=([^/?]*)")
"""Matches a directory with an option, such as `/var/lib/words?synchronous=FULL`."""
_IN_MEMORY: dict[str, InMemoryLog] = {}
_LOCK = threading.Lock()


def open_log(bootstrap_servers: str, properties: Mapping[str, str] | None = None, *, create: bool = True) -> Log:
    """Opens a log. `host:port,...` and `kafka:host:port,...` open the log on a Kafka cluster. `embedded:<directory>`
    opens a SQLite file in the directory. `memory:<name>` opens a log in memory. If several callers in this process give
    the same name, they share this log. The default of an embedded log is `synchronous=NORMAL`. A commit then survives
    the end of any process, but a power loss may lose the commit. With the address
    `embedded:<directory>?synchronous=FULL`, each commit also survives a power loss.

    `properties`: properties of Kafka's clients (`security.protocol`, ...). The embedded log and the in-memory log
    accept only `linger.ms`. With an embedded or in-memory log, the owner of a producer has to call `send_now` after
    `linger.ms`. `create`: True to create an embedded log if the directory has none. Raises InputError for an address of
    an unknown form. If `create` is False, raises InputError for a directory without a log. Raises LogError if the
    directory cannot be used.
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
    """Returns the part `host:port,...` of the address of a Kafka cluster. Returns None for any other address. A host
    may have the name `kafka`, as in `kafka:9092`.
    """
    servers = bootstrap_servers.strip()
    without = servers.removeprefix(_PREFIX)
    if without != servers and _SERVERS.match(without):
        return without
    return servers if _SERVERS.match(servers) else None


def cluster_provider_name(bootstrap_servers: str) -> str:
    """Returns the name of the cluster provider for this log (`assignor.cluster_providers`). A coordinator reads the log
    through the provider.

    Raises InputError for a log in memory, because no other process can read this log. Raises InputError for a log in a
    relative directory, because each process has its own working directory.
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
    """Returns the log's address without options. Other processes can use this address, because the options affect only
    this process. Raises InputError.
    """
    servers = kafka_servers(bootstrap_servers)
    if servers is not None:
        return servers
    kind, name, _ = _local_address(bootstrap_servers)
    return f"{kind}:{name}"


class _LocalAddress(NamedTuple):
    """The parsed address of an embedded or in-memory log. `kind`: embedded or memory. `name`: the name of a log in
    memory, or the directory of an embedded log. `synchronous`: the option `synchronous` of an embedded log.
    """

    kind: str
    name: str
    synchronous: Synchronous = Synchronous.NORMAL


def _local_address(bootstrap_servers: str) -> _LocalAddress:
    """Parses an address of an embedded or in-memory log. Raises InputError for an address of any other form."""
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
