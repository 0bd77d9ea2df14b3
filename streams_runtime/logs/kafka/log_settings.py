"""Reads the settings of a log on Kafka: properties of all clients, of producers, of consumers and of new topics.

Rules: names, meanings and bounds are Kafka's. If Kafka Streams has its own default for a setting, this default is used.
An unknown key is an error. Source: `ProducerConfig`, `ConsumerConfig`, `StreamsConfig`. Differs from Kafka: the default
of `compression.type` is lz4. Kafka does not compress by default. `linger.ms` has the same meaning for the embedded and
the in-memory log.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from assignor.errors import InputError
from assignor.types import JAVA_INT_MAX
from kafka_client.settings.client_settings import ClientSettings, client_settings

REPLICATION_FACTOR = "replication.factor"
TRANSACTION_TIMEOUT_MS = "transaction.timeout.ms"
COMPRESSION_TYPE = "compression.type"
LINGER_MS = "linger.ms"
DEFAULT_LINGER_MS = 100

_CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
# the default, the lowest value and the highest value of each setting; `LogSettings` has a field for each setting
_INTEGERS: dict[str, tuple[int, int, int]] = {
    REPLICATION_FACTOR: (-1, -1, 32_767),
    TRANSACTION_TIMEOUT_MS: (10_000, 1, JAVA_INT_MAX),
    LINGER_MS: (DEFAULT_LINGER_MS, 0, JAVA_INT_MAX),
    "buffer.memory": (33_554_432, 1_048_576, JAVA_INT_MAX),
    "max.partition.fetch.bytes": (1_048_576, 1, JAVA_INT_MAX),
    "fetch.max.bytes": (52_428_800, 1, JAVA_INT_MAX),
}
LOG_KEYS = frozenset((*_INTEGERS, COMPRESSION_TYPE))
"""The names of the properties that only a log has. A log also has the properties of all clients."""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The settings of one log. `replication_factor`: the replication factor of new topics; -1 for the brokers' default.
    `codec`: Kafka's number for the compression type.
    """

    client: ClientSettings
    codec: int
    replication_factor: int
    transaction_timeout_ms: int
    linger_ms: int
    buffer_memory: int
    max_partition_fetch_bytes: int
    fetch_max_bytes: int


def log_settings(bootstrap_servers: str, properties: Mapping[str, str] | None = None) -> LogSettings:
    """Reads the settings from properties. Raises InputError that names the property."""
    given = {key: str(value).strip() for key, value in (properties or {}).items()}
    own = {key: given.pop(key) for key in LOG_KEYS & given.keys()}
    codec = own.get(COMPRESSION_TYPE, "lz4")
    if codec not in _CODECS:
        raise InputError(f"must be one of {', '.join(_CODECS)}, not {codec!r}", COMPRESSION_TYPE)
    integers = {key.replace(".", "_"): _integer(key, own) for key in _INTEGERS}
    return LogSettings(client_settings(bootstrap_servers, given), _CODECS[codec], **integers)


def linger_ms(properties: Mapping[str, str] | None = None) -> int:
    """Returns `linger.ms`: the longest time in milliseconds that a record waits for other records of its batch. Raises
    InputError.
    """
    return _integer(LINGER_MS, properties or {})


def _integer(key: str, own: Mapping[str, str]) -> int:
    default, low, high = _INTEGERS[key]
    try:
        value = int(own.get(key, default))
    except ValueError:
        raise InputError(f"must be a whole number, not {own[key]!r}", key) from None
    if not low <= value <= high:
        raise InputError(f"must be from {low} to {high}, not {value}", key)
    return value
