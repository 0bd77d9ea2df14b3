"""Assignment configs under Kafka's dotted names, with Kafka's defaults and bounds.

Whole numbers and lists are parsed as Kafka parses the text of a properties file. The error for an unknown key names the
nearest known key. The error for a value out of bounds names the bounds. `kafka.version` and the keys that begin with
`minimal.movement.` are this project's own. Only MinimalMovementTaskAssignor uses the keys that begin with
`minimal.movement.`.

Source: `StreamsConfig` and `AssignmentConfigs` of Kafka Streams 4.3.1; `ConfigDef.parseType` (which trims values with
`String.trim`), `Integer.parseInt`, `Long.parseLong`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from assignor.configs.application_server import APPLICATION_SERVER, check_application_server
from assignor.configs.kafka_versions import VERSION_WITHOUT_A_NAME, KafkaVersion, kafka_version_named
from assignor.configs.pins import Pin, TaskWeights, pins_document, pins_from, weights_document, weights_from
from assignor.errors import ConfigError, InputError
from assignor.names.near_names import did_you_mean
from assignor.types import JAVA_INT_MAX, JAVA_INT_MIN, JAVA_LONG_MAX, JAVA_LONG_MIN, utf16_order

_TRIMMED = "".join(map(chr, range(0x21)))
"""The characters that `String.trim` removes: control characters and blanks, but no other white space."""

_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,4000}")
_COMMA = re.compile(r"[ \t\n\v\f\r]*,[ \t\n\v\f\r]*")
_FIRST_PAIR = "\U00010000"
"""The first character outside the BMP. Java stores this character and all higher characters as two chars, so
`Character.digit(char)` never accepts these characters as digits.
"""


def trimmed(text: str) -> str:
    """Returns `text.trim()`."""
    return text.strip(_TRIMMED)


def whole_number(text: str) -> int | None:
    """Parses decimal digits of any script, with or without a sign. Returns None if the text is not a whole number."""
    text = trimmed(text)
    if _WHOLE_NUMBER.fullmatch(text) is None or max(text) >= _FIRST_PAIR:
        return None
    return int(text)


def listed(text: str) -> list[str]:
    """Returns the entries of a comma-separated list; an entry may be empty. An empty text has no entries."""
    text = trimmed(text)
    return _COMMA.split(text) if text else []


NUM_STANDBY_REPLICAS = "num.standby.replicas"
ACCEPTABLE_RECOVERY_LAG = "acceptable.recovery.lag"
MAX_WARMUP_REPLICAS = "max.warmup.replicas"
PROBING_REBALANCE_INTERVAL_MS = "probing.rebalance.interval.ms"
RACK_AWARE_ASSIGNMENT_TAGS = "rack.aware.assignment.tags"
RACK_AWARE_ASSIGNMENT_STRATEGY = "rack.aware.assignment.strategy"
RACK_AWARE_ASSIGNMENT_TRAFFIC_COST = "rack.aware.assignment.traffic_cost"
RACK_AWARE_ASSIGNMENT_NON_OVERLAP_COST = "rack.aware.assignment.non_overlap_cost"
REPLICATION_FACTOR = "replication.factor"
WINDOW_STORE_ADDITIONAL_RETENTION_MS = "windowstore.changelog.additional.retention.ms"
UPGRADE_FROM = "upgrade.from"
KAFKA_VERSION = "kafka.version"
MINIMAL_MOVEMENT_TASK_WEIGHTS = "minimal.movement.task.weights"
MINIMAL_MOVEMENT_PINS = "minimal.movement.pins"
TOPIC_PREFIX = "topic."

RACK_AWARE_STRATEGIES = ("none", "min_traffic", "balance_subtopology")
MAX_RACK_AWARE_ASSIGNMENT_TAGS = 5
MAX_RACK_AWARE_ASSIGNMENT_TAG_KEY_LENGTH = 20

# For each key, the lowest and the highest value that Kafka accepts. If Kafka has no bound for a key, the bounds of the
# key's type apply.
INTEGER_BOUNDS: dict[str, tuple[int, int]] = {
    NUM_STANDBY_REPLICAS: (JAVA_INT_MIN, JAVA_INT_MAX),
    ACCEPTABLE_RECOVERY_LAG: (0, JAVA_LONG_MAX),
    MAX_WARMUP_REPLICAS: (1, JAVA_INT_MAX),
    PROBING_REBALANCE_INTERVAL_MS: (60_000, JAVA_LONG_MAX),
    RACK_AWARE_ASSIGNMENT_TRAFFIC_COST: (JAVA_INT_MIN, JAVA_INT_MAX),
    RACK_AWARE_ASSIGNMENT_NON_OVERLAP_COST: (JAVA_INT_MIN, JAVA_INT_MAX),
    REPLICATION_FACTOR: (JAVA_INT_MIN, JAVA_INT_MAX),
    WINDOW_STORE_ADDITIONAL_RETENTION_MS: (JAVA_LONG_MIN, JAVA_LONG_MAX),
}
NULLABLE = frozenset({RACK_AWARE_ASSIGNMENT_TRAFFIC_COST, RACK_AWARE_ASSIGNMENT_NON_OVERLAP_COST})
KNOWN_KEYS = (
    *INTEGER_BOUNDS,
    RACK_AWARE_ASSIGNMENT_TAGS,
    RACK_AWARE_ASSIGNMENT_STRATEGY,
    APPLICATION_SERVER,
    UPGRADE_FROM,
    KAFKA_VERSION,
    MINIMAL_MOVEMENT_TASK_WEIGHTS,
    MINIMAL_MOVEMENT_PINS,
)


@dataclass(frozen=True, slots=True)
class AssignmentConfigs:
    """The configs of the leader's `StreamsConfig` that affect placement and internal topics; times are in
    milliseconds.
    """

    num_standby_replicas: int = 0
    acceptable_recovery_lag: int = 10_000
    max_warmup_replicas: int = 2
    probing_rebalance_interval_ms: int = 600_000
    rack_aware_assignment_tags: tuple[str, ...] = ()
    rack_aware_assignment_strategy: str = "none"
    rack_aware_traffic_cost: int | None = None
    rack_aware_non_overlap_cost: int | None = None
    replication_factor: int = -1
    window_store_additional_retention_ms: int = 86_400_000
    topic_configs: Mapping[str, str] = field(default_factory=dict)
    """The configs of all internal topics that a rebalance creates: the keys that begin with `topic.`, without this
    prefix.
    """
    application_server: str = ""
    upgrade_from: str | None = None
    """The value of Kafka's config `upgrade.from`. `check` refuses a value that the Kafka version does not know."""
    kafka_version: KafkaVersion = VERSION_WITHOUT_A_NAME
    """The version of Kafka whose rules the leader follows. Kafka itself has no setting `kafka.version`."""
    minimal_movement_task_weights: TaskWeights | None = None
    minimal_movement_pins: tuple[Pin, ...] = ()

    @classmethod
    def from_dotted(cls, values: Mapping[str, object], where: str = "configs") -> AssignmentConfigs:
        """Reads configs under Kafka's dotted names. A missing key gets Kafka's default. Raises InputError."""
        topic_configs: dict[str, str] = {}
        for key, value in values.items():
            if key.startswith(TOPIC_PREFIX):
                topic_configs[key[len(TOPIC_PREFIX) :]] = _as_config_text(key, value, where)
            elif key not in KNOWN_KEYS:
                raise InputError(f"unknown config {key!r}{did_you_mean(key, KNOWN_KEYS)}", where)

        def integer(key: str, default: int | None) -> int | None:
            return default if key not in values else _bounded_integer(key, values[key], where)

        return cls(
            num_standby_replicas=integer(NUM_STANDBY_REPLICAS, 0) or 0,
            acceptable_recovery_lag=integer(ACCEPTABLE_RECOVERY_LAG, 10_000) or 0,
            max_warmup_replicas=integer(MAX_WARMUP_REPLICAS, 2) or 0,
            probing_rebalance_interval_ms=integer(PROBING_REBALANCE_INTERVAL_MS, 600_000) or 0,
            rack_aware_assignment_tags=_tags(values.get(RACK_AWARE_ASSIGNMENT_TAGS), where),
            rack_aware_assignment_strategy=_strategy(values.get(RACK_AWARE_ASSIGNMENT_STRATEGY), where),
            rack_aware_traffic_cost=integer(RACK_AWARE_ASSIGNMENT_TRAFFIC_COST, None),
            rack_aware_non_overlap_cost=integer(RACK_AWARE_ASSIGNMENT_NON_OVERLAP_COST, None),
            replication_factor=integer(REPLICATION_FACTOR, -1) or 0,
            window_store_additional_retention_ms=integer(WINDOW_STORE_ADDITIONAL_RETENTION_MS, 86_400_000) or 0,
            topic_configs=topic_configs,
            application_server=_text_or_none(APPLICATION_SERVER, values, where) or "",
            upgrade_from=_text_or_none(UPGRADE_FROM, values, where),
            kafka_version=_kafka_version(values.get(KAFKA_VERSION), where),
            minimal_movement_task_weights=weights_from(
                values.get(MINIMAL_MOVEMENT_TASK_WEIGHTS), f"{where}.{MINIMAL_MOVEMENT_TASK_WEIGHTS}"
            ),
            minimal_movement_pins=pins_from(values.get(MINIMAL_MOVEMENT_PINS), f"{where}.{MINIMAL_MOVEMENT_PINS}"),
        )

    def check(self) -> None:
        """Raises ConfigError for a value that Kafka's leader refuses when it reads its configs."""
        checks = [self._check_upgrade_from, self._check_application_server]
        if self.kafka_version.rules.refuses_incomplete_endpoints:
            checks.reverse()  # Kafka checks all configs in alphabetical order
        for check in checks:
            check()

    def _check_upgrade_from(self) -> None:
        known = self.kafka_version.rules.upgrade_from
        if self.upgrade_from is not None and self.upgrade_from not in known:
            raise ConfigError(
                f"Invalid value {self.upgrade_from} for configuration {UPGRADE_FROM}: String must be one of: "
                f"null, {', '.join(known)}"
            )

    def _check_application_server(self) -> None:
        if self.application_server:
            check_application_server(self.application_server, self.kafka_version, self.log_prefix)

    @property
    def log_prefix(self) -> str:
        """The prefix of some of Kafka's messages. In Kafka, the prefix contains the leader's `client.id`; a leader of
        this project has no `client.id`.
        """
        names_server = self.application_server and self.kafka_version.rules.names_app_server
        return "stream-thread [] " + (f"app-server [{self.application_server}] " if names_server else "")

    @property
    def rack_aware(self) -> bool:
        """True if a rack-aware strategy (KIP-925) is configured."""
        return self.rack_aware_assignment_strategy != "none"


def dotted_configs(configs: AssignmentConfigs) -> dict[str, object]:
    """Returns all configs under Kafka's dotted names, including defaults, so that a recording keeps its meaning if a
    default changes. This project's own keys are included only if they are set.
    """
    dotted: dict[str, object] = {
        NUM_STANDBY_REPLICAS: configs.num_standby_replicas,
        ACCEPTABLE_RECOVERY_LAG: configs.acceptable_recovery_lag,
        MAX_WARMUP_REPLICAS: configs.max_warmup_replicas,
        PROBING_REBALANCE_INTERVAL_MS: configs.probing_rebalance_interval_ms,
        RACK_AWARE_ASSIGNMENT_TAGS: list(configs.rack_aware_assignment_tags),
        RACK_AWARE_ASSIGNMENT_STRATEGY: configs.rack_aware_assignment_strategy,
        REPLICATION_FACTOR: configs.replication_factor,
        WINDOW_STORE_ADDITIONAL_RETENTION_MS: configs.window_store_additional_retention_ms,
    }
    if configs.rack_aware_traffic_cost is not None:
        dotted[RACK_AWARE_ASSIGNMENT_TRAFFIC_COST] = configs.rack_aware_traffic_cost
    if configs.rack_aware_non_overlap_cost is not None:
        dotted[RACK_AWARE_ASSIGNMENT_NON_OVERLAP_COST] = configs.rack_aware_non_overlap_cost
    if configs.kafka_version is not VERSION_WITHOUT_A_NAME:
        dotted[KAFKA_VERSION] = str(configs.kafka_version)
    if configs.application_server:
        dotted[APPLICATION_SERVER] = configs.application_server
    if configs.upgrade_from is not None:
        dotted[UPGRADE_FROM] = configs.upgrade_from
    if configs.minimal_movement_task_weights is not None:
        dotted[MINIMAL_MOVEMENT_TASK_WEIGHTS] = weights_document(configs.minimal_movement_task_weights)
    if configs.minimal_movement_pins:
        dotted[MINIMAL_MOVEMENT_PINS] = pins_document(configs.minimal_movement_pins)
    dotted.update({TOPIC_PREFIX + key: value for key, value in configs.topic_configs.items()})
    return dotted


def _bounded_integer(key: str, value: object, where: str) -> int | None:
    if value is None and key in NULLABLE:
        return None
    if isinstance(value, str):
        number = whole_number(value)
        value = value if number is None else number
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f"{key} must be a whole number, not {_shortened(repr(value))}", where)
    low, high = INTEGER_BOUNDS[key]
    if not low <= value <= high:
        shown = value if value.bit_length() <= 128 else f"a number of {value.bit_length()} bits"
        raise InputError(f"{key} must be from {low} to {high}, not {shown}", where)
    return value


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _tags(value: object, where: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        value = listed(value)
    if not isinstance(value, (list, tuple)) or not all(isinstance(tag, str) for tag in value):
        raise InputError(
            f"{RACK_AWARE_ASSIGNMENT_TAGS} must be a list of tag names, not {_shortened(repr(value))}", where
        )
    if not all(value):
        raise InputError(f"{RACK_AWARE_ASSIGNMENT_TAGS} has an empty tag name", where)
    if len(value) > MAX_RACK_AWARE_ASSIGNMENT_TAGS:
        raise InputError(f"{RACK_AWARE_ASSIGNMENT_TAGS} takes at most {MAX_RACK_AWARE_ASSIGNMENT_TAGS} tags", where)
    too_long = [tag for tag in value if len(utf16_order(tag)) // 2 > MAX_RACK_AWARE_ASSIGNMENT_TAG_KEY_LENGTH]
    if too_long:
        raise InputError(
            f"{RACK_AWARE_ASSIGNMENT_TAGS} takes tag keys of at most {MAX_RACK_AWARE_ASSIGNMENT_TAG_KEY_LENGTH} "
            f"characters, not {_shortened(repr(too_long[0]))}",
            where,
        )
    return tuple(value)


def _strategy(value: object, where: str) -> str:
    if value is None:
        return "none"
    if isinstance(value, str):
        value = trimmed(value)
    if value not in RACK_AWARE_STRATEGIES:
        raise InputError(
            f"{RACK_AWARE_ASSIGNMENT_STRATEGY} must be one of {', '.join(RACK_AWARE_STRATEGIES)}, "
            f"not {_shortened(repr(value))}",
            where,
        )
    return str(value)


def _text_or_none(key: str, values: Mapping[str, object], where: str) -> str | None:
    value = values.get(key)
    if value is None:
        return None
    if not isinstance(value, str):
        raise InputError(f"{key} must be text, not {_shortened(repr(value))}", where)
    return trimmed(value)


def _kafka_version(value: object, where: str) -> KafkaVersion:
    if value is None:
        return VERSION_WITHOUT_A_NAME
    return kafka_version_named(_shortened(str(value)), f"{where}.{KAFKA_VERSION}")


def _as_config_text(key: str, value: object, where: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise InputError(f"{key} must be text or a number, not {_shortened(repr(value))}", where)
