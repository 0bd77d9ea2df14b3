"""Writes rebalance/1 and placement/1. If this module wrote a document, reading the document gives the same values."""

import base64
from collections.abc import Iterable, Mapping, Sequence

from assignor.configs import dotted_configs
from assignor.errors import KafkaError
from assignor.pipeline.snapshot import Member, RebalanceResult, RebalanceSnapshot
from assignor.recording.documents import document_of
from assignor.recording.rebalance import REBALANCE_FORMAT
from assignor.recording.topology_fields import topology_document
from assignor.task_assignors.base import Placement
from assignor.task_assignors.steering import NO_STEERING, Steering
from assignor.topology.cluster import TopicMetadata


def rebalance_output(result: RebalanceResult) -> dict[str, object]:
    """Returns the `output` of rebalance/1."""
    output: dict[str, object] = {
        "assignments": {member_id: _base64(raw) for member_id, raw in result.assignments.items()},
        "internal_topics": dict(result.internal_topics),
        "created_topics": document_of(result.created_topics),
        "probing_rebalance_at_ms": result.probing_rebalance_at_ms,
        "followup_rebalance": result.followup_rebalance,
        "error": None if result.error is None else result.error.as_recorded(),
    }
    cause = None if result.error is None else result.error.__cause__
    if isinstance(cause, KafkaError):
        output["error_cause"] = cause.as_recorded()
    return output


def rebalance_document(
    *,
    id: str,
    group_id: str,
    generation_id: int,
    now_ms: int,
    source: str,
    snapshot: RebalanceSnapshot,
    result: RebalanceResult | None = None,
    explanations: Sequence[Mapping[str, object]] = (),
    kafka_version: str | None = None,
) -> dict[str, object]:
    """Returns one recorded rebalance as JSON data. `explanations`: the results of `explain.explanation_document`, which
    become a part of `output`. `kafka_version`: the release of the leader. If `kafka_version` is None or belongs to
    another Kafka version than the snapshot, the document names the release that computed the test vectors.
    """
    document: dict[str, object] = {
        "format": REBALANCE_FORMAT,
        "kafka_version": snapshot.configs.kafka_version.release(kafka_version),
        "id": id,
        "group_id": group_id,
        "generation_id": generation_id,
        "now_ms": now_ms,
        "source": source,
        "input": rebalance_input(snapshot),
    }
    if result is not None:
        output = rebalance_output(result)
        if explanations:
            output["explanations"] = list(explanations)
        document["output"] = output
    return document


def rebalance_input(snapshot: RebalanceSnapshot) -> dict[str, object]:
    """Returns the `input` of rebalance/1."""
    end_offsets = snapshot.changelog_end_offsets
    document: dict[str, object] = {
        "assignor": snapshot.assignor,
        "configs": dotted_configs(snapshot.configs),
        "application_id": snapshot.application_id,
        "topology": topology_document(snapshot.topology),
        "cluster": {"brokers": document_of(snapshot.cluster.brokers), "topics": _topics(snapshot.cluster.topics)},
        "existing_internal_topics": _topics(snapshot.existing_internal_topics),
        "changelog_end_offsets": None if end_offsets is None else _per_topic(end_offsets),
        "committed_offsets": _per_topic(snapshot.committed_offsets),
        "leader_process_id": None if snapshot.leader_process_id is None else str(snapshot.leader_process_id),
        "members": {member_id: _member(member) for member_id, member in snapshot.members.items()},
    }
    if snapshot.failures:
        document["failures"] = sorted(snapshot.failures)
    if snapshot.future_process_id is not None:
        document["future_process_id"] = str(snapshot.future_process_id)
    if snapshot.created_internal_topics is not None:
        document["created_internal_topics"] = _topics(snapshot.created_internal_topics)
    if snapshot.topics_refusal is not None:
        document["topics_refusal"] = snapshot.topics_refusal
    if snapshot.steering != NO_STEERING:
        document["steering"] = _steering(snapshot.steering)
    return document


def placement_output(placement: Placement) -> dict[str, object]:
    """Returns the `output` of placement/1."""
    return {
        "probing_rebalance_needed": placement.probing_rebalance_needed,
        "clients": {
            str(process_id): {
                "active": [str(task) for task in sorted(client.active)],
                "standby": [str(task) for task in sorted(client.standby)],
            }
            for process_id, client in sorted(placement.clients.items())
        },
    }


def _topics(topics: Mapping[str, TopicMetadata]) -> dict[str, object]:
    return {
        topic: {
            "partitions": metadata.partitions,
            "replicas": None if metadata.replicas is None else [list(brokers) for brokers in metadata.replicas],
            "leaders": None if metadata.leaders is None else list(metadata.leaders),
        }
        for topic, metadata in topics.items()
    }


def _per_topic(offsets: Mapping[str, Iterable[int | None]]) -> dict[str, object]:
    return {topic: list(per_partition) for topic, per_partition in offsets.items()}


def _member(member: Member) -> dict[str, object]:
    return {
        "client_id": member.client_id,
        "group_instance_id": member.group_instance_id,
        "subscription": _base64(member.subscription),
    }


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _steering(steering: Steering) -> dict[str, object]:
    """Returns the instructions of operators as JSON data, without empty fields."""
    document: dict[str, object] = {}
    if steering.drained_processes:
        document["drained_processes"] = [str(process) for process in sorted(steering.drained_processes)]
    if steering.drained_members:
        document["drained_members"] = sorted(steering.drained_members)
    if steering.keeps_owned:
        document["keeps_owned"] = True
    if steering.away_processes:
        document["away_processes"] = [str(process) for process in sorted(steering.away_processes)]
    return document
