"""The documents that callers send (definitions, recordings, placement problems), for OpenAPI. docs/formats.md has them
in words.

`assignor.recording` and `groups/definitions.py` read them, by hand and with the path of every mistake. A test holds the
two together: what these models refuse, the readers refuse. The readers refuse more, which no schema can say: a list
with another number of entries than its topic has partitions, an id that is given twice, bytes that cannot be decoded,
a group that is larger than the settings allow.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, Strict, WithJsonSchema

from assignor.configs import (
    INTEGER_BOUNDS,
    MAX_RACK_AWARE_ASSIGNMENT_TAG_KEY_LENGTH,
    MAX_RACK_AWARE_ASSIGNMENT_TAGS,
    MINIMAL_MOVEMENT_PINS,
    MINIMAL_MOVEMENT_TASK_WEIGHTS,
    NULLABLE,
    RACK_AWARE_ASSIGNMENT_STRATEGY,
    RACK_AWARE_ASSIGNMENT_TAGS,
    RACK_AWARE_STRATEGIES,
)
from assignor.legal_names import NAME_PATTERN
from assignor.pins import HEAVIEST_WEIGHT
from assignor.recording.assignor_fields import KNOWN_ASSIGNORS
from assignor.recording.fields import MAX_PARTITIONS
from assignor.recording.rebalance import SOURCES
from assignor.topology.group_topology import ChangelogType
from assignor.types import JAVA_INT_MAX, JAVA_LONG_MAX
from coordinator_api.clusters.providers import BOOTSTRAP_SERVERS
from coordinator_api.http.schemas import Base64, Int32, Int64

_TASK_PATTERN = r"^([\s\S]+__)?[0-9]+_[0-9]+$"
_UUID_PATTERN = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"

LegalName = Annotated[str, Field(json_schema_extra={"pattern": NAME_PATTERN})]
_BY_TOPIC = Field(json_schema_extra={"propertyNames": {"pattern": NAME_PATTERN}})

Flag = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Field(ge=0, le=JAVA_INT_MAX)]
Offset = Annotated[int, Strict(), Field(ge=0, le=JAVA_LONG_MAX)]
Partitions = Annotated[int, Strict(), Field(ge=1, le=MAX_PARTITIONS)]
TaskText = Annotated[str, Field(pattern=_TASK_PATTERN)]
Tasks = Annotated[list[TaskText], Field(json_schema_extra={"uniqueItems": True})]
ProcessText = Annotated[str, Field(pattern=_UUID_PATTERN)]
Bytes = Annotated[Base64, Field(description="base64")]
Failure = Literal["changelog_end_offsets", "committed_offsets", "create_topics", "describe_topics"]
Nothing = Annotated[dict[str, JsonValue], Field(max_length=0)] | None

_BUILT_IN_OR_CLASS = {
    "anyOf": [
        {"type": "string", "enum": list(KNOWN_ASSIGNORS)},
        {"type": "string", "pattern": r"^[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*$"},
    ],
    "description": "A built-in one, or `module:Class` that the setting task.assignor.classes lists.",
}
Assignor = Annotated[str, WithJsonSchema(_BUILT_IN_OR_CLASS)]


def _number(key: str) -> dict[str, Any]:
    least, most = INTEGER_BOUNDS[key]
    number: dict[str, Any] = {"type": "integer", "minimum": least, "maximum": most}
    kinds: list[dict[str, Any]] = [number, {"type": "string", "pattern": r"^[\x00-\x20]*[+-]?\d{1,4000}[\x00-\x20]*$"}]
    return {"anyOf": [*kinds, {"type": "null"}] if key in NULLABLE else kinds}


_TAG_KEY = {"type": "string", "minLength": 1, "maxLength": MAX_RACK_AWARE_ASSIGNMENT_TAG_KEY_LENGTH}
_TEXTS = {"type": "array", "items": _TAG_KEY, "maxItems": MAX_RACK_AWARE_ASSIGNMENT_TAGS}
_WEIGHTS = {
    "type": "object",
    "propertyNames": {"pattern": _TASK_PATTERN},
    "additionalProperties": {"type": "number", "exclusiveMinimum": 0, "maximum": HEAVIEST_WEIGHT},
}
_PIN = {
    "type": "object",
    "required": ["tasks"],
    "properties": {
        "tasks": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
        "apart": {"type": "string", "minLength": 1},
    },
    "additionalProperties": False,
    "oneOf": [{"required": ["tags"]}, {"required": ["apart"]}],
}


def _or_text(schema: dict[str, Any]) -> dict[str, Any]:
    """A shell passes it as text."""
    return {"anyOf": [schema, {"type": "string"}, {"type": "null"}]}


_CONFIGS: dict[str, Any] = {
    "type": "object",
    "description": "Kafka's dotted names; `topic.*` are configs of internal topics.",
    "properties": {
        **{key: _number(key) for key in INTEGER_BOUNDS},
        RACK_AWARE_ASSIGNMENT_TAGS: _or_text(_TEXTS),
        RACK_AWARE_ASSIGNMENT_STRATEGY: {"enum": [*RACK_AWARE_STRATEGIES, None]},
        MINIMAL_MOVEMENT_TASK_WEIGHTS: _or_text(_WEIGHTS),
        MINIMAL_MOVEMENT_PINS: _or_text({"type": "array", "items": _PIN}),
    },
    "patternProperties": {r"^topic\.": {"type": ["string", "number", "boolean"]}},
    "additionalProperties": False,
}
Configs = Annotated[dict[str, JsonValue], WithJsonSchema(_CONFIGS)]


class _DocumentPart(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class RepartitionTopicPart(_DocumentPart):
    """`partitions`: null when the topics that feed it decide."""

    name: LegalName
    partitions: Partitions | None = None


class ChangelogPart(_DocumentPart):
    type: ChangelogType
    configs: dict[str, str] | None = None
    retention_ms: Offset | None = None
    min_compaction_lag_ms: Offset | None = None


class StorePart(_DocumentPart):
    """With neither topic the store is not logged; both are refused. In a definition its name has the characters of a
    topic's.
    """

    name: str
    changelog_topic: LegalName | None = None
    source_topic_as_changelog: LegalName | None = None
    changelog: ChangelogPart | None = None


class SubtopologyPart(_DocumentPart):
    """`id`: unique in its topology. Names of topics are full ones."""

    id: Count
    source_topics: list[LegalName]
    repartition_source_topics: list[RepartitionTopicPart]
    sink_topics: list[LegalName]
    repartition_sink_topics: list[LegalName]
    stores: list[StorePart]
    java_hash_code: Int32 | None = None


class TopologyPart(_DocumentPart):
    """`copartition_groups`: topics that need the same number of partitions."""

    subtopologies: list[SubtopologyPart]
    copartition_groups: list[list[LegalName]]


class TopicPart(_DocumentPart):
    """`replicas`, `leaders`: broker ids, one entry for each partition."""

    partitions: Partitions
    replicas: list[list[Int32]] | None = None
    leaders: list[Int32] | None = None


class BrokerPart(_DocumentPart):
    id: Int32
    rack: str | None = None


class ClusterPart(_DocumentPart):
    """Topics that are not internal."""

    brokers: list[BrokerPart]
    topics: Annotated[dict[str, TopicPart], _BY_TOPIC]


class NamedClusterPart(_DocumentPart):
    """A cluster that the setting cluster.bootstrap.servers lists, and which every rebalance looks at."""

    provider: Annotated[str, Field(min_length=1, examples=["embedded", "kafka"])]
    bootstrap_servers: Annotated[str, Field(min_length=1)] | None = Field(None, alias=BOOTSTRAP_SERVERS)


class DefinitionBody(_DocumentPart):
    """`input` of rebalance/1 without members and leader. `application_id`: the group's id when it is missing."""

    assignor: Assignor
    configs: Configs = Field(default_factory=dict)
    application_id: LegalName = Field(default_factory=str)
    topology: TopologyPart
    cluster: ClusterPart | NamedClusterPart
    existing_internal_topics: Annotated[dict[str, TopicPart], _BY_TOPIC] = Field(default_factory=dict)
    changelog_end_offsets: Annotated[dict[str, list[Offset]], _BY_TOPIC] | None = Field(default_factory=dict)
    committed_offsets: Annotated[dict[str, list[Offset | None]], _BY_TOPIC] = Field(default_factory=dict)
    failures: list[Failure] | None = None
    future_process_id: ProcessText | None = None
    created_internal_topics: Annotated[dict[str, TopicPart], _BY_TOPIC] | None = None
    topics_refusal: str | None = None
    members: Nothing = None
    leader_process_id: None = None


class RecordedMemberPart(_DocumentPart):
    subscription: Bytes
    client_id: str | None = None
    group_instance_id: str | None = None


class SteeringPart(_DocumentPart):
    """What operators asked of the rebalance beside Kafka's rules; absent when they asked for nothing."""

    drained_processes: list[ProcessText] | None = None
    drained_members: list[str] | None = None
    keeps_owned: bool | None = None
    away_processes: list[ProcessText] | None = None


class RebalanceInputPart(_DocumentPart):
    """Everything that the leader knew."""

    assignor: Assignor
    configs: Configs
    application_id: LegalName
    topology: TopologyPart
    cluster: ClusterPart
    existing_internal_topics: Annotated[dict[str, TopicPart], _BY_TOPIC]
    changelog_end_offsets: Annotated[dict[str, list[Offset]], _BY_TOPIC] | None
    committed_offsets: Annotated[dict[str, list[Offset | None]], _BY_TOPIC]
    leader_process_id: ProcessText | None
    members: dict[str, RecordedMemberPart]
    failures: list[Failure] | None = None
    future_process_id: ProcessText | None = None
    created_internal_topics: Annotated[dict[str, TopicPart], _BY_TOPIC] | None = None
    topics_refusal: str | None = None
    steering: SteeringPart | None = None


class ReportedInputPart(RebalanceInputPart):
    members: Annotated[dict[str, RecordedMemberPart], Field(min_length=1)]


class CreatedTopicPart(_DocumentPart):
    partitions: Partitions
    replication_factor: Annotated[int, Strict(), Field(ge=-(2**15), le=2**15 - 1)] | None = None
    configs: dict[str, str] | None = None


class RebalanceOutputPart(_DocumentPart):
    """What the leader decided."""

    assignments: dict[str, Bytes]
    internal_topics: dict[str, Partitions]
    probing_rebalance_at_ms: Int64 | None
    followup_rebalance: Flag
    error: str | None
    created_topics: dict[str, CreatedTopicPart] | None = None
    error_cause: str | None = None
    explanations: list[JsonValue] | None = None


class RebalanceDocument(_DocumentPart):
    """One recorded rebalance. Times in milliseconds since the epoch."""

    format: Literal["rebalance/1"]
    id: str
    group_id: str
    generation_id: Int32
    now_ms: Offset
    source: Annotated[str, WithJsonSchema({"enum": list(SOURCES)})]
    input: RebalanceInputPart
    output: RebalanceOutputPart | None = None
    led_by: str | None = None
    note: str | None = None
    interrupted: bool | None = None


class ReportBody(_DocumentPart):
    """One rebalance/1 of this group with its output, which another leader decided."""

    format: Literal["rebalance/1"]
    id: str
    group_id: str
    generation_id: Annotated[Int32, Field(ge=1)]
    now_ms: Offset
    source: Literal["kafka"]
    input: ReportedInputPart
    output: RebalanceOutputPart
    led_by: str | None = None
    note: str | None = None


class PlacementClientPart(_DocumentPart):
    """`capacity`: threads. `consumers`: as many names, or none. `lags`: records behind, -2 for a running task."""

    capacity: Annotated[int, Strict(), Field(ge=1, le=JAVA_INT_MAX)]
    consumers: list[str] | None = None
    prev_active: Tasks | None = None
    prev_standby: Tasks | None = None
    lags: dict[TaskText, Int64] | None = None
    tags: dict[str, str] | None = None
    rack: str | None = None


class PlacedClientPart(_DocumentPart):
    active: Tasks
    standby: Tasks


class PlacementOutputPart(_DocumentPart):
    probing_rebalance_needed: Flag
    clients: dict[ProcessText, PlacedClientPart]


ReadPartitions = dict[TaskText, list[tuple[str, Count]]]
"""By task: topics and partitions."""


class PlacementDocument(_DocumentPart):
    """A problem for the task assignor alone. All tasks are of one topology, `stateful` are some of them. A rack-aware
    strategy needs the partitions of all of them, and their racks.
    """

    format: Literal["placement/1"]
    id: str
    assignor: Assignor
    configs: Configs
    tasks: Tasks
    stateful: Tasks
    clients: Annotated[dict[ProcessText, PlacementClientPart], Field(min_length=1)]
    task_partitions: ReadPartitions | None = None
    changelog_partitions: ReadPartitions | None = None
    partition_racks: dict[str, list[list[str | None]]] | None = None
    meta: dict[str, JsonValue] | None = None
    output: PlacementOutputPart | None = None
