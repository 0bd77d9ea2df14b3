"""Reads recorded rebalances in the format rebalance/1. The input becomes a snapshot. A line may lack the output."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from assignor.errors import InputError
from assignor.pipeline.snapshot import Member, RebalanceSnapshot
from assignor.recording.fields import (
    RECORDING_FIELDS,
    Fields,
    as_assignor,
    as_boolean,
    as_bytes,
    as_choice,
    as_configs,
    as_int32,
    as_int32s,
    as_integer,
    as_long,
    as_offset,
    as_offsets,
    as_partitions,
    as_process_id,
    as_release,
    as_text,
    by_name,
    configs_of_release,
    each_of,
)
from assignor.recording.topology_fields import as_topic_configs, as_topology
from assignor.task_assignors.steering import NO_STEERING, Steering
from assignor.topology.cluster import Broker, Cluster, TopicMetadata

REBALANCE_FORMAT = "rebalance/1"
SOURCES = ("coordinator", "kafka", "generated")
FAILURES = ("changelog_end_offsets", "committed_offsets", "create_topics", "describe_topics")
_FAILURES_ABOUT_TOPICS = ("create_topics", "describe_topics")


@dataclass(frozen=True, slots=True)
class RecordedTopic:
    """An internal topic that the recorded rebalance created. `configs`: the topic's configs; None if the configs were
    not recorded.
    """

    partitions: int
    replication_factor: int | None
    configs: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class RecordedOutput:
    """The `output` of rebalance/1. `created_topics`: the created topics by name; None if the created topics were not
    recorded.
    """

    assignments: Mapping[str, bytes]
    internal_topics: Mapping[str, int] = field(default_factory=dict)
    created_topics: Mapping[str, RecordedTopic] | None = None
    probing_rebalance_at_ms: int | None = None
    followup_rebalance: bool = False
    error: str | None = None
    error_cause: str | None = None


@dataclass(frozen=True, slots=True)
class RecordedRebalance:
    """One parsed line of rebalance/1. `led_by`: the software of the leader; None stands for Kafka Streams. The `output`
    of other software can differ from the output of Kafka. `kafka_version`: the release of Kafka whose rules the leader
    followed; None if the line names no release.

    `interrupted`: True if the generation began but never got an assignment. An interrupted rebalance has no output, and
    its input is the input of the next generation.
    """

    id: str
    group_id: str
    generation_id: int
    now_ms: int
    source: str
    snapshot: RebalanceSnapshot
    output: RecordedOutput | None = None
    led_by: str | None = None
    note: str | None = None
    interrupted: bool = False
    kafka_version: str | None = None


def parse_recorded_rebalance(document: Mapping[str, object]) -> RecordedRebalance:
    """Reads a whole line of rebalance/1. Raises InputError with the path of the mistake, and NotBuiltYet for a feature
    of a later release.
    """
    fields = Fields(
        document,
        "",
        ("format", "id", "group_id", "generation_id", "now_ms", "source", "input"),
        ("output", "led_by", "note", "interrupted", *RECORDING_FIELDS),
    )
    fields.read("format", lambda value, where: as_choice(value, where, (REBALANCE_FORMAT,)))
    output = fields.read_or_none("output", _as_output)
    interrupted = fields.read_or_none("interrupted", as_boolean) or False
    if interrupted and output is not None:
        raise InputError("is there, although the generation was interrupted before it got one", "output")
    release = fields.read_or_none("kafka_version", as_release)
    snapshot = fields.read("input", parse_rebalance_input)
    snapshot = replace(snapshot, configs=configs_of_release(snapshot.configs, release))
    return RecordedRebalance(
        id=fields.text("id"),
        group_id=fields.text("group_id"),
        generation_id=fields.read("generation_id", as_int32),
        now_ms=fields.read("now_ms", as_offset),
        source=fields.read("source", lambda value, where: as_choice(value, where, SOURCES)),
        snapshot=_with_refusal(snapshot, output),
        output=output,
        led_by=fields.text_or_none("led_by"),
        note=fields.text_or_none("note"),
        interrupted=interrupted,
        kafka_version=release,
    )


def _with_refusal(snapshot: RebalanceSnapshot, output: RecordedOutput | None) -> RebalanceSnapshot:
    """Copies the brokers' error into the snapshot. A recording from Kafka contains the brokers' error only as the cause
    of the leader's error.
    """
    if output is None or output.error_cause is None or snapshot.topics_refusal is not None:
        return snapshot
    if snapshot.failures.isdisjoint(_FAILURES_ABOUT_TOPICS):
        return snapshot
    return replace(snapshot, topics_refusal=output.error_cause)


def parse_rebalance(document: Mapping[str, object]) -> RebalanceSnapshot:
    """Reads only the input from a line of rebalance/1. Raises the errors of `parse_recorded_rebalance`."""
    return parse_recorded_rebalance(document).snapshot


def parse_rebalance_input(value: object, where: str = "input") -> RebalanceSnapshot:
    """Reads the `input` of rebalance/1. Raises InputError with the path of the mistake, and NotBuiltYet for a feature
    of a later release.
    """
    fields = Fields(
        value,
        where,
        (
            "assignor",
            "configs",
            "application_id",
            "topology",
            "cluster",
            "existing_internal_topics",
            "changelog_end_offsets",
            "committed_offsets",
            "leader_process_id",
            "members",
        ),
        ("failures", "future_process_id", "created_internal_topics", "topics_refusal", "steering"),
    )
    return RebalanceSnapshot(
        assignor=fields.read("assignor", as_assignor),
        configs=fields.read("configs", as_configs),
        application_id=fields.text("application_id"),
        topology=fields.read("topology", as_topology),
        cluster=fields.read("cluster", as_cluster),
        members=fields.read("members", by_name(_as_member)),
        existing_internal_topics=fields.read("existing_internal_topics", by_name(_as_topic_metadata)),
        changelog_end_offsets=fields.read_or_none("changelog_end_offsets", by_name(as_offsets)),
        committed_offsets=fields.read("committed_offsets", by_name(each_of(_as_committed_offset))),
        failures=frozenset(fields.read_or_none("failures", each_of(_as_failure)) or ()),
        leader_process_id=fields.read_or_none("leader_process_id", as_process_id),
        future_process_id=fields.read_or_none("future_process_id", as_process_id),
        created_internal_topics=fields.read_or_none("created_internal_topics", by_name(_as_topic_metadata)),
        topics_refusal=fields.text_or_none("topics_refusal"),
        steering=fields.read_or_none("steering", _as_steering) or NO_STEERING,
    )


def as_cluster(value: object, where: str) -> Cluster:
    fields = Fields(value, where, ("brokers", "topics"))
    brokers = []
    for item, at in fields.items("brokers"):
        broker = Fields(item, at, ("id",), ("rack",))
        brokers.append(Broker(broker.read("id", as_int32), broker.text_or_none("rack")))
    return Cluster(tuple(brokers), fields.read("topics", by_name(_as_topic_metadata)))


def _as_topic_metadata(value: object, where: str) -> TopicMetadata:
    fields = Fields(value, where, ("partitions",), ("replicas", "leaders"))
    partitions = fields.read("partitions", as_partitions)
    replicas = fields.read_or_none("replicas", each_of(as_int32s))
    leaders = fields.read_or_none("leaders", as_int32s)
    for name, per_partition in (("replicas", replicas), ("leaders", leaders)):
        if per_partition is not None and len(per_partition) != partitions:
            raise InputError(f"has {len(per_partition)} entries for {partitions} partitions", fields.at(name))
    return TopicMetadata(partitions, replicas, leaders)


def _as_committed_offset(value: object, where: str) -> int | None:
    return None if value is None else as_offset(value, where)


def _as_failure(value: object, where: str) -> str:
    return as_choice(value, where, FAILURES)


def _as_member(value: object, where: str) -> Member:
    fields = Fields(value, where, ("subscription",), ("client_id", "group_instance_id"))
    return Member(
        fields.read("subscription", as_bytes),
        fields.text_or_none("client_id"),
        fields.text_or_none("group_instance_id"),
    )


def _as_steering(value: object, where: str) -> Steering:
    """Reads the operators' instructions for the rebalance."""
    fields = Fields(value, where, (), ("drained_processes", "drained_members", "keeps_owned", "away_processes"))
    return Steering(
        drained_processes=frozenset(fields.read_or_none("drained_processes", each_of(as_process_id)) or ()),
        drained_members=frozenset(fields.read_or_none("drained_members", each_of(as_text)) or ()),
        keeps_owned=bool(fields.read_or_none("keeps_owned", as_boolean)),
        away_processes=frozenset(fields.read_or_none("away_processes", each_of(as_process_id)) or ()),
    )


def _as_output(value: object, where: str) -> RecordedOutput:
    fields = Fields(
        value,
        where,
        ("assignments", "internal_topics", "probing_rebalance_at_ms", "followup_rebalance", "error"),
        ("created_topics", "error_cause", "explanations"),
    )
    if fields.raw("explanations") is not None:
        # explanations are for people, so only the type of the field `explanations` is checked
        list(fields.items("explanations"))
    return RecordedOutput(
        assignments=fields.read("assignments", by_name(as_bytes)),
        internal_topics=fields.read("internal_topics", by_name(as_partitions)),
        created_topics=fields.read_or_none("created_topics", by_name(_as_created_topic)),
        probing_rebalance_at_ms=fields.read_or_none("probing_rebalance_at_ms", as_long),
        followup_rebalance=fields.read("followup_rebalance", as_boolean),
        error=fields.text_or_none("error"),
        error_cause=fields.text_or_none("error_cause"),
    )


def _as_created_topic(value: object, where: str) -> RecordedTopic:
    fields = Fields(value, where, ("partitions",), ("replication_factor", "configs"))
    return RecordedTopic(
        fields.read("partitions", as_partitions),
        fields.read_or_none("replication_factor", lambda item, path: as_integer(item, path, -(2**15), 2**15 - 1)),
        fields.read_or_none("configs", as_topic_configs),
    )
