"""The configs of one instance, with Kafka's dotted names, defaults and bounds.

Source: `StreamsConfig` of 4.4.0. `assignor.configs` defines the configs for the placement of tasks
(`num.standby.replicas`, ...), which become part of the group's definition. An unknown key raises an error that names
the most similar known key. If Kafka has a key that this project does not have, the error names this project's
replacement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from assignor.configs import KNOWN_KEYS, RACK_AWARE_ASSIGNMENT_TAGS, AssignmentConfigs, whole_number
from assignor.errors import InputError
from assignor.names.legal_names import LONGEST_NAME, NAME_RULE, is_legal_name, shown_name
from assignor.names.near_names import did_you_mean
from assignor.names.printable import shown_address
from assignor.types import JAVA_INT_MAX, JAVA_LONG_MAX
from coordinator_client.access.tls import VERIFY_MODES, ServerTls, server_tls
from kafka_client.settings.client_settings import KNOWN_KEYS as CLIENT_KEYS
from streams_runtime.logs.base import IsolationLevel, OffsetReset
from streams_runtime.logs.kafka.log_settings import (
    DEFAULT_LINGER_MS,
    LINGER_MS,
    LOG_KEYS,
    REPLICATION_FACTOR,
    log_settings,
)
from streams_runtime.logs.opening import kafka_servers
from streams_runtime.serdes import Serde
from streams_runtime.serdes.defaults import DefaultSerdes, configured_serde, imported_object, made

DEFAULT_SESSION_TIMEOUT_MS = 45_000
REUSE_KTABLE_SOURCE_TOPICS = "reuse.ktable.source.topics"
MERGE_REPARTITION_TOPICS = "merge.repartition.topics"
SINGLE_STORE_SELF_JOIN = "single.store.self.join"
OPTIMIZATIONS = frozenset({REUSE_KTABLE_SOURCE_TOPICS, MERGE_REPARTITION_TOPICS, SINGLE_STORE_SELF_JOIN})
"""The values that the config `topology.optimization` may list."""


class ProcessingGuarantee(StrEnum):
    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE_V2 = "exactly_once_v2"


def _values(read: Callable[[str, object, str], object], accepted: str = "") -> Mapping[str, Any]:
    """Returns the metadata of a field of `StreamsConfig`. `read`: a function that converts a given value to the field's
    value, or raises InputError. The function `read` has three arguments: the key, the given value, and the name of the
    configs' source for error messages. `accepted`: a text about the accepted values for the documentation; "" if any
    text is accepted.
    """
    return {"read": read, "accepted": accepted}


def _whole(low: int, high: int = JAVA_LONG_MAX) -> Mapping[str, Any]:
    def read(key: str, value: object, where: str) -> int:
        if isinstance(value, str):
            number = whole_number(value)
            value = value if number is None else number
        if not isinstance(value, int) or isinstance(value, bool):
            raise InputError(f"{key} must be a whole number, not {value!r}", where)
        if not low <= value <= high:
            raise InputError(f"{key} must be from {low} to {high}, not {value}", where)
        return value

    return _values(read, f"from {low}" if high in (JAVA_INT_MAX, JAVA_LONG_MAX) else f"{low} to {high}")


def _one_of(choices: Iterable[str], made: Callable[[str], str] = str) -> Mapping[str, Any]:
    names = [str(each) for each in choices]
    accepted = ", ".join(names)

    def read(key: str, value: object, where: str) -> str:
        if str(value) not in names:
            raise InputError(f"{key} must be one of {accepted}, not {value!r}", where)
        return made(str(value))

    return _values(read, accepted)


def _boolean(key: str, value: object, where: str) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise InputError(f"{key} must be true or false, not {value!r}", where)


def _text(key: str, value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"{key} must be text, not {value!r}", where)
    return value


def _secret(key: str, value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        # the error message does not show the value, because the value is secret
        raise InputError(f"{key} must be text", where)
    return value


def _path(kind: str) -> Mapping[str, Any]:
    def read(key: str, value: object, where: str) -> Path:
        if not isinstance(value, (str, Path)) or not str(value):
            raise InputError(f"{key} must be a {kind}, not {value!r}", where)
        return Path(value)

    return _values(read)


def _config_setter(key: str, value: object, where: str) -> object:
    found = imported_object(key, value, where) if isinstance(value, str) else value
    found = made(key, found, where)
    setter = getattr(found, "set_config", found)
    if not callable(setter):
        raise InputError(
            f"{key} must be a function of a store's name and its options, a class with set_config, or the full name "
            f"of one, not {value!r}",
            where,
        )
    return setter


def _optimization(key: str, value: object, where: str) -> frozenset[str]:
    """Source: `StreamsConfig.verifyTopologyOptimizationConfigs`."""
    given = [each.strip() for each in value.split(",")] if isinstance(value, str) else None
    if given == ["all"]:
        return OPTIMIZATIONS
    if given == ["none"]:
        return frozenset()
    if given is None or not OPTIMIZATIONS.issuperset(given):
        raise InputError(
            f"{key} must be all, none, or a list of {', '.join(sorted(OPTIMIZATIONS))}, not {value!r}", where
        )
    return frozenset(given)


@dataclass(frozen=True, slots=True)
class StreamsConfig:
    """The configs of one instance. Times are in milliseconds. A config whose default is None also accepts None.

    `commit_interval_ms`: the time between two commits; None for 100 ms with exactly-once, and for 30 s without it.
    `bootstrap_servers`: the addresses of Kafka's brokers, or `embedded:<directory>` for an embedded log (a SQLite file,
    without a server). `application_server`: the host:port at which an instance on Spark answers queries of its stores.
    Port 0 stands for any free port.
    If `application_server` is None, the instance uses a free port. If the instance has a token, this free port is on
    the executor's host; otherwise it is on loopback. `application_server_ssl_*`: the TLS settings of this endpoint. If
    no certificate is given, the endpoint serves plain HTTP. A stream thread works in passes. `restore_batch_records`:
    the largest number of records that one pass restores while other tasks run. `restore_pass_ms`: the time limit for
    restoring in one pass while other tasks run. `record_pass_ms`: the time limit for processing records in one pass;
    after it, the thread punctuates and commits. `topology_optimization`: a subset of `OPTIMIZATIONS`; None if the
    config was not given. `ensure_explicit_internal_resource_naming`: True to refuse a topology with generated names of
    stores and repartition topics (KIP-1111). `kafka_properties`: the properties for Kafka's clients; they may contain
    secrets.
    `enable_transactional_statestores`: True if changes of a store stay in memory until their task commits. An
    instance's threads share `statestore_uncommitted_max_bytes` equally; -1 for no limit. `state_checkpoint_file`: True
    to write `.checkpoint` files, too. `configured_isolation_level`: the value of `isolation.level`; None if the config
    was not given. `processing_exception_handler_global_enabled`: True to call the handler of processing errors for the
    processors of global stores, too; False to end the instance after such an error.
    """

    application_id: str = field(metadata=_values(_text))
    bootstrap_servers: str = field(metadata=_values(_text))
    state_dir: Path = field(default=Path("kafka-streams"), metadata=_path("directory"))
    processing_guarantee: ProcessingGuarantee = field(
        default=ProcessingGuarantee.AT_LEAST_ONCE, metadata=_one_of(ProcessingGuarantee, ProcessingGuarantee)
    )
    commit_interval_ms: int | None = field(default=None, metadata=_whole(0))
    linger_ms: int = field(default=DEFAULT_LINGER_MS, metadata=_whole(0, JAVA_INT_MAX))
    # The number of threads is limited, because one heartbeat of the process contains the data of all threads. Kafka
    # does not limit the number of threads.
    num_stream_threads: int = field(default=1, metadata=_whole(1, 1_000))
    max_task_idle_ms: int = field(default=0, metadata=_whole(-1))
    task_timeout_ms: int = field(default=300_000, metadata=_whole(0))
    statestore_cache_max_bytes: int = field(default=10 * 1024 * 1024, metadata=_whole(0))
    enable_transactional_statestores: bool = field(default=True, metadata=_values(_boolean, "true, false"))
    statestore_uncommitted_max_bytes: int = field(default=64 * 1024 * 1024, metadata=_whole(-1))
    state_checkpoint_file: bool = field(default=False, metadata=_values(_boolean, "true, false"))
    configured_isolation_level: IsolationLevel | None = field(
        default=None, metadata={**_one_of(IsolationLevel, IsolationLevel), "key": "isolation.level"}
    )
    poll_ms: int = field(default=100, metadata=_whole(0))
    max_poll_records: int = field(default=1_000, metadata=_whole(1, JAVA_INT_MAX))
    buffered_records_per_partition: int = field(default=1_000, metadata=_whole(1, JAVA_INT_MAX))
    auto_offset_reset: OffsetReset = field(default=OffsetReset.EARLIEST, metadata=_one_of(OffsetReset, OffsetReset))
    state_cleanup_delay_ms: int = field(default=600_000, metadata=_whole(0))
    repartition_purge_interval_ms: int = field(default=30_000, metadata=_whole(0))
    application_server: str | None = field(default=None, metadata=_values(_text))
    application_server_ssl_certfile: Path | None = field(default=None, metadata=_path("file"))
    application_server_ssl_keyfile: Path | None = field(default=None, metadata=_path("file"))
    application_server_ssl_keyfile_password: str | None = field(default=None, repr=False, metadata=_values(_secret))
    application_server_ssl_ca_certs: Path | None = field(default=None, metadata=_path("file"))
    application_server_ssl_cert_reqs: str = field(default="none", metadata=_one_of(VERIFY_MODES))
    client_id: str | None = field(default=None, metadata=_values(_text))
    session_timeout_ms: int = field(default=DEFAULT_SESSION_TIMEOUT_MS, metadata=_whole(1, JAVA_INT_MAX))
    heartbeat_interval_ms: int | None = field(default=None, metadata=_whole(1, JAVA_INT_MAX))
    rebalance_timeout_ms: int = field(default=300_000, metadata=_whole(1, JAVA_INT_MAX))
    leave_on_disconnect: bool = field(default=True, metadata=_values(_boolean, "true, false"))
    errors_dead_letter_queue_topic_name: str | None = field(default=None, metadata=_values(_text))
    processing_exception_handler_global_enabled: bool = field(default=False, metadata=_values(_boolean, "true, false"))
    topology_optimization: frozenset[str] | None = field(default=None, metadata=_values(_optimization))
    ensure_explicit_internal_resource_naming: bool = field(default=False, metadata=_values(_boolean, "true, false"))
    rocksdb_config_setter: Callable[[str, Any], object] | None = field(default=None, metadata=_values(_config_setter))
    default_key_serde: Serde[Any] | None = field(default=None, metadata=_values(configured_serde))
    default_value_serde: Serde[Any] | None = field(default=None, metadata=_values(configured_serde))
    client_tags: Mapping[str, str] = field(default_factory=dict)
    assignment: Mapping[str, object] = field(default_factory=dict)
    restore_batch_records: int = field(default=10_000, metadata=_whole(1, JAVA_INT_MAX))
    restore_pass_ms: int = field(default=20, metadata=_whole(1, JAVA_INT_MAX))
    record_pass_ms: int = field(default=50, metadata=_whole(1, JAVA_INT_MAX))
    kafka_properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def spreads_over_hosts(self) -> bool:
        """True if neither `client.tag.*` nor `rack.aware.assignment.tags` is given.

        If this property is True, each instance gets the client tag HOST_TAG with the name of its host as value. If the
        group has several hosts, the assignor then puts an active task and its standby on different hosts. To allow an
        active task and its standby on one host, set `rack.aware.assignment.tags` to an empty value.
        Differs from Kafka: Kafka sets no client tag. So in Kafka, an active task and its standby may be on the same
        host and fail together.
        """
        return not self.client_tags and RACK_AWARE_ASSIGNMENT_TAGS not in self.assignment

    @property
    def placement(self) -> Mapping[str, object]:
        """The configs for the placement of tasks, which become part of the group's definition. If `spreads_over_hosts`
        is True, HOST_TAG is the rack-aware tag.
        """
        if not self.spreads_over_hosts:
            return self.assignment
        return {**self.assignment, RACK_AWARE_ASSIGNMENT_TAGS: HOST_TAG}

    @property
    def exactly_once(self) -> bool:
        return self.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2

    @property
    def isolation_level(self) -> IsolationLevel:
        """The isolation level with which tasks read input topics and changelogs."""
        return IsolationLevel.READ_COMMITTED if self.exactly_once else IsolationLevel.READ_UNCOMMITTED

    @property
    def query_isolation_level(self) -> IsolationLevel:
        """The isolation level with which queries read stores, if a query does not choose its own level."""
        return self.isolation_level if self.configured_isolation_level is None else self.configured_isolation_level

    @property
    def effective_commit_interval_ms(self) -> int:
        if self.commit_interval_ms is not None:
            return self.commit_interval_ms
        return 100 if self.exactly_once else 30_000

    @property
    def endpoint_tls(self) -> ServerTls | None:
        """The TLS settings of the instance's endpoint; None for plain HTTP. Raises InputError for contradictory
        configs.
        """
        return server_tls(
            self.application_server_ssl_certfile,
            self.application_server_ssl_keyfile,
            self.application_server_ssl_keyfile_password,
            self.application_server_ssl_ca_certs,
            self.application_server_ssl_cert_reqs,
            "application.server.",
        )

    @property
    def default_serdes(self) -> DefaultSerdes:
        return DefaultSerdes(self.default_key_serde, self.default_value_serde)

    @property
    def log_properties(self) -> Mapping[str, str]:
        """The properties that `open_log` needs in addition to `bootstrap_servers`."""
        if kafka_servers(self.bootstrap_servers) is None:
            return self.kafka_properties
        properties = {**self.kafka_properties, LINGER_MS: str(self.linger_ms)}
        replication = self.assignment.get(REPLICATION_FACTOR)
        if replication is not None:
            properties[REPLICATION_FACTOR] = str(replication)
        return properties

    @classmethod
    def from_dotted(cls, values: Mapping[str, object], where: str = "configs") -> StreamsConfig:
        """Returns the configs that are given by dotted names. Raises an InputError that names the invalid key."""
        configs = cls("", "")._with_values(values, where)
        for key in ("application.id", "bootstrap.servers"):
            if not getattr(configs, FIELD_OF[key].name):
                raise InputError(f"{key!r} is missing and has no default", where)
        return _checked(configs, where)

    def with_dotted(self, values: Mapping[str, object], where: str = "configs") -> StreamsConfig:
        """Returns a copy of the configs with changed values. `values`: maps dotted names to the new values. Raises an
        InputError that names the invalid key.
        """
        return _checked(self._with_values(values, where), where)

    def _with_values(self, values: Mapping[str, object], where: str) -> StreamsConfig:
        fields_given: dict[str, Any] = {}
        tags, assignment, properties = dict(self.client_tags), dict(self.assignment), dict(self.kafka_properties)
        for key, value in values.items():
            if not isinstance(key, str):
                raise InputError(f"unknown config {key!r}: configs have names of text", where)
            if key.startswith(_CLIENT_TAG_PREFIX):
                tags[key.removeprefix(_CLIENT_TAG_PREFIX)] = str(value)
            elif (setting := FIELD_OF.get(key)) is not None:
                is_default = value is None and setting.default is None
                fields_given[setting.name] = None if is_default else setting.metadata["read"](key, value, where)
            elif key in _ASSIGNMENT_KEYS or key.startswith("topic."):
                assignment[key] = value
            elif key in KAFKA_PROPERTIES:
                properties[key] = str(value)
            else:
                raise InputError(f"unknown config {key!r}{_hint(key)}", where)
        return replace(self, **fields_given, client_tags=tags, assignment=assignment, kafka_properties=properties)


def _checked(configs: StreamsConfig, where: str) -> StreamsConfig:
    """Checks the configs and returns them. Raises InputError if values contradict each other, or if a config for the
    placement of tasks is out of bounds.
    """
    _check_heartbeats(configs, where)
    # The calls below only check the configs, so that errors are raised where the user gives the configs.
    AssignmentConfigs.from_dotted(configs.assignment, where)
    check_names(configs, where)
    _check_properties(configs, where)
    _ = configs.endpoint_tls
    return configs


HOST_TAG = "host"
"""The key of the client tag that contains the name of the instance's host."""

_CLIENT_TAG_PREFIX = "client.tag."
MOST_TAGS, LONGEST_TAG, LONGEST_TAG_VALUE = 5, 20, 30
"""Source: `MAX_RACK_AWARE_ASSIGNMENT_TAG_LIST_SIZE`, `..._KEY_LENGTH`, `..._VALUE_LENGTH` of `StreamsConfig`."""

_ASSIGNMENT_KEYS = frozenset(KNOWN_KEYS)
KAFKA_PROPERTIES = (CLIENT_KEYS | LOG_KEYS) - {"bootstrap.servers", "client.id", LINGER_MS, REPLICATION_FACTOR}
"""The configs of an application may contain these properties of Kafka's clients."""

# The key of each config is computed from its field name, so that the two names always agree. Exception: the field of
# `isolation.level` names its key, because the property `isolation_level` is the level with which tasks read the log.
FIELD_OF = {one.metadata.get("key", one.name.replace("_", ".")): one for one in fields(StreamsConfig) if one.metadata}


def check_names(configs: StreamsConfig, where: str) -> None:
    """Checks the configs that are names of topics, directories and members, and the configs that the commands print in
    tables. Raises InputError.

    Source: `Topic.validate`; for client tags `StreamsConfig.validateRackAwarenessConfiguration`.
    """
    for key, name in (
        ("application.id", configs.application_id),
        ("errors.dead.letter.queue.topic.name", configs.errors_dead_letter_queue_topic_name),
    ):
        if name is not None and not is_legal_name(name):
            raise InputError(f"{key} {shown_name(name)} must have {NAME_RULE}", where)
    client_id = configs.client_id
    if client_id is not None and not (client_id.isprintable() and len(client_id) <= LONGEST_NAME):
        raise InputError(
            f"client.id {shown_name(client_id)} must have 1 to {LONGEST_NAME} printable characters, in one line", where
        )
    if len(configs.client_tags) > MOST_TAGS:
        raise InputError(f"{len(configs.client_tags)} client tags are more than {MOST_TAGS}", where)
    for tag, value in configs.client_tags.items():
        for what, text, longest in (("name", tag, LONGEST_TAG), ("value", value, LONGEST_TAG_VALUE)):
            if not (text and text.isprintable() and len(text) <= longest):
                raise InputError(
                    f"{_CLIENT_TAG_PREFIX}{shown_name(tag)[1:-1]}: its {what} must have 1 to {longest} printable "
                    f"characters, and is {shown_name(text)}",
                    where,
                )


def config_of(configs: StreamsConfig | Mapping[str, object] | None, key: str) -> Any:
    """Returns the value of one config, also if the other configs are not known yet. Raises InputError."""
    setting = FIELD_OF[key]
    if isinstance(configs, StreamsConfig):
        return getattr(configs, setting.name)
    value = (configs or {}).get(key, setting.default)
    return value if value is setting.default else setting.metadata["read"](key, value, "configs")


def _check_properties(configs: StreamsConfig, where: str) -> None:
    servers = kafka_servers(configs.bootstrap_servers)
    if servers is None:
        if configs.kafka_properties:
            raise InputError(
                f"{min(configs.kafka_properties)!r} is a property of Kafka's clients, but bootstrap.servers "
                f"{shown_address(configs.bootstrap_servers)!r} is not a Kafka cluster",
                where,
            )
        return
    longest_ms = log_settings(servers, configs.log_properties).transaction_timeout_ms
    if configs.exactly_once and longest_ms < configs.effective_commit_interval_ms:
        raise InputError(
            f"transaction.timeout.ms ({longest_ms}) must not be lower than commit.interval.ms "
            f"({configs.effective_commit_interval_ms}), or the brokers abort every transaction",
            where,
        )


def _check_heartbeats(configs: StreamsConfig, where: str) -> None:
    """Source: `HeartbeatThread`'s constructor."""
    session_ms, heartbeat_ms = configs.session_timeout_ms, configs.heartbeat_interval_ms
    if heartbeat_ms is not None and heartbeat_ms >= session_ms:
        raise InputError(
            f"heartbeat.interval.ms ({heartbeat_ms}) must be lower than session.timeout.ms ({session_ms}), "
            "or the group considers every member dead",
            where,
        )


def _hint(key: str) -> str:
    """Returns advice for an unknown key. The text is the end of an error message, and has no full stop."""
    if key in _INSTEAD:
        return f": {_INSTEAD[key]}"
    if key in _SINGLE_CLIENT_KEYS or key.startswith(_CLIENT_PREFIXES):
        return f": {_NO_CLIENT}"
    return did_you_mean(key, [*FIELD_OF, *_ASSIGNMENT_KEYS])


# Advice for two kinds of Kafka's keys: keys that this project does not have, and keys that are set outside these
# configs. Source: `StreamsConfig`, `ConsumerConfig`, `ProducerConfig` of 4.4.0. `stream.threads.run.as` is a former
# config of this project.
_HANDLERS = "handlers are arguments of Application"
_SENDING = f"{_HANDLERS}: production_exception_handler="
_NO_CLIENT = "single clients cannot be configured here; the value is fixed, or write the key without its prefix"
_STORES = "choose the kind of store with its builder or Materialized (persistent=)"

_INSTEAD = {
    "windowed.inner.class.serde": "use TimeWindowedSerde",
    "window.size.ms": "use TimeWindowedSerde",
    "default.interactive.query.isolation.level": "use 'isolation.level'",
    "cache.max.bytes.buffering": "use 'statestore.cache.max.bytes'",
    "default.timestamp.extractor": "use timestamp_extractor= of the source",
    "deserialization.exception.handler": f"{_HANDLERS}: deserialization_exception_handler=",
    "default.deserialization.exception.handler": f"{_HANDLERS}: deserialization_exception_handler=",
    "processing.exception.handler": f"{_HANDLERS}: processing_exception_handler=",
    "production.exception.handler": _SENDING,
    "default.production.exception.handler": _SENDING,
    "max.poll.interval.ms": "use 'rebalance.timeout.ms'",
    "group.instance.id": "use InstanceOptions(incarnation=...), which makes threads static members",
    "stream.threads.run.as": "stream threads share the process of their instance; for more cores, run n instances: "
    "assignor workers run module:app --local --instances n",
    "default.dsl.store": _STORES,
    "dsl.store.suppliers.class": _STORES,
    "group.protocol": "the coordinator of this project speaks the classic protocol",
}
_CLIENT_PREFIXES = ("consumer.", "main.consumer.", "restore.consumer.", "global.consumer.", "producer.", "admin.")
_SINGLE_CLIENT_KEYS = frozenset(("acks", "batch.size", "enable.idempotence", "retries"))
