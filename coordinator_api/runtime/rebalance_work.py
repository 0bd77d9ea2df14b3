"""Computes the slow part of a rebalance, in a worker process. The worker gets and returns only small values. The job of
a rebalance contains the definition as text and the subscriptions of the members as bytes. The worker caches the parsed
definition. The result is already packed and compressed for the store. The recording contains the exact input and output
of the rebalance, so that `assignor assign --check` can compute the same result from it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from assignor import pipeline
from assignor.pipeline.snapshot import ClusterView, RebalanceResult, RebalanceSnapshot
from assignor.protocol.shared_assignments import NO_ASSIGNMENTS
from assignor.protocol.subscription_info import decode_member
from assignor.recording import rebalance_document
from assignor.topology.group_topology import GroupTopology
from assignor.topology.internal_topics import CreatedTopic, missing_source_topics
from assignor.topology.source_patterns import ExpandedTopology
from assignor.types import AssignorErrorCode, ProcessId
from coordinator_api.group.events import AssignmentComputed, ComputedAssignments
from coordinator_api.group.outcome import AssignmentStored, RebalanceWaits, Response, RunRebalance
from coordinator_api.group.rebalance_result import computed_assignments
from coordinator_api.runtime.allowed_assignors import allowed_here
from coordinator_api.runtime.clusters import ProviderAddress
from coordinator_api.runtime.definitions import Definition, check_size, read_input
from coordinator_api.store.recorded_documents import pack_document
from coordinator_api.store.repository import HELD, Recording


@dataclass(frozen=True, slots=True)
class RebalanceJob:
    """The input of a rebalance. `future_process_id`: the process id for members whose subscriptions have an unknown
    future version. `view`: the state of the cluster that the definition names. `max_partitions`: the largest number of
    partitions. The worker checks the number of partitions again, because the cluster may have grown since the
    declaration. `assignor_classes`: the arguments of `AllowedAssignors`. `sources`: the topology with the matches of
    its source patterns; None if the topology has no patterns. `failure`: an error outside of the worker, because of
    which the rebalance has already failed. If `failure` is set, the worker computes no assignment, and only makes the
    recording.
    """

    group_id: str
    rebalance: RunRebalance
    now_ms: int
    future_process_id: ProcessId
    assignor_classes: tuple[str, ...]
    max_partitions: int
    view: ClusterView | None = None
    sources: ExpandedTopology | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterNamed:
    """The worker's answer if the definition names a cluster that was not polled yet. The caller polls the cluster, and
    sends the job again with the result of the poll.
    """

    provider: ProviderAddress


@dataclass(frozen=True, slots=True)
class ComputedRebalance:
    """A computed rebalance. `event`: the event to send to the group. `created_topics`: the topics to create before
    `event` is sent. When the group has accepted the event, `document` and `summary` are stored. `document` is already
    in the stored form. The outcome and the duration are added to `summary` before it is stored.
    """

    event: AssignmentComputed
    created_topics: Mapping[str, CreatedTopic]
    now_ms: int
    summary: Mapping[str, object]
    document: bytes

    def recording(self, response: Response, took_ms: int | None) -> Recording | None:
        """Returns the recording of the rebalance. `response`: the answer of the group to `event`. Returns None if the
        group has discarded the rebalance. `took_ms`: the time since the rebalance began; None if unknown.
        """
        summary: dict[str, object] = {**self.summary, "took_ms": took_ms}
        match response:
            case AssignmentStored():
                summary["outcome"] = str(response.outcome)
            case RebalanceWaits():
                ends = {"ended": None, "by": None, "at_ms": None, "reason": None}
                summary.update(outcome=HELD, hold={"since_ms": response.since_ms, **ends})
            case _:
                return None
        return Recording(self.event.generation_id, self.now_ms, json.dumps(summary), self.document)


def compute(job: RebalanceJob) -> ComputedRebalance | ClusterNamed:
    """Computes a rebalance. If an assignor raises an error, the result is a failed rebalance. Raises InputError if the
    definition cannot be read.
    """
    definition = _definition(job.rebalance.input_json)
    if definition.provider is not None and job.view is None and job.failure is None:
        return ClusterNamed(definition.provider)
    snapshot = _snapshot(job, definition.snapshot)
    if job.failure is not None:
        return _rebalance(job, snapshot, RebalanceResult(), job.failure)
    try:
        if job.view is not None:
            check_size(snapshot, job.max_partitions)
        own_assignor = allowed_here(job.assignor_classes).load(snapshot.assignor)
        result = pipeline.assign(snapshot, job.now_ms, own_assignor)
    except Exception as fault:  # a user's own assignor may raise any error
        return _rebalance(job, snapshot, RebalanceResult(), f"{type(fault).__name__}: {fault}")
    return _rebalance(job, snapshot, result)


@lru_cache(maxsize=8)
def _definition(input_json: str) -> Definition:
    """Returns the parsed definition. A worker process caches the definitions of its most recent rebalances."""
    return read_input(input_json)


def _snapshot(job: RebalanceJob, declared: RebalanceSnapshot) -> RebalanceSnapshot:
    members, steering = job.rebalance.members, job.rebalance.steering
    future = declared.future_process_id
    # Kafka's leader would use a random process id for a member with an unknown future version
    if future is None and any(decode_member(each.subscription).info.is_future for each in members.values()):
        future = job.future_process_id
    topology = declared.topology if job.sources is None else job.sources.topology
    snapshot = replace(declared, topology=topology, members=members, future_process_id=future, steering=steering)
    return snapshot if job.view is None else snapshot.seen(job.view)


def _rebalance(
    job: RebalanceJob, snapshot: RebalanceSnapshot, result: RebalanceResult, failure: str | None = None
) -> ComputedRebalance:
    """`failure`: the reason why the rebalance has no result. If `failure` is set, the members get an error, and the
    reason is recorded.
    """
    asked = job.rebalance
    if failure is None:
        rebalance = computed_assignments(snapshot.members, asked.definition_revision, result)
    else:
        rebalance = ComputedAssignments(error=failure)
    topics = {} if job.view is None else topics_after(snapshot, result)
    missing: tuple[str, ...] = ()
    if job.view is not None and result.error_code is AssignorErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA:
        missing = missing_source_topics(snapshot.topology, snapshot.cluster)
    error = rebalance.error
    if error is None and result.error_code is not AssignorErrorCode.NONE:
        error = f"{result.error_code.name}: {', '.join(missing)}" if missing else result.error_code.name
    if error is None and job.sources is not None:
        missing = job.sources.unmatched
    return ComputedRebalance(
        AssignmentComputed(asked.generation_id, rebalance, topics, missing, asked.steering.keeps_owned),
        result.created_topics,
        job.now_ms,
        _summary(job, result, error),
        pack_document(_document(job, snapshot, result, failure), result.assignments),
    )


def _document(
    job: RebalanceJob, snapshot: RebalanceSnapshot, result: RebalanceResult, failure: str | None
) -> dict[str, object]:
    """Returns the document without the assignments, which are packed separately."""
    document = rebalance_document(
        id=f"{job.group_id}-{job.rebalance.generation_id}",
        group_id=job.group_id,
        generation_id=job.rebalance.generation_id,
        now_ms=job.now_ms,
        source="coordinator",
        snapshot=snapshot,
        result=replace(result, assignments=NO_ASSIGNMENTS),
    )
    if failure is not None:
        output = document["output"]
        assert isinstance(output, dict)
        output["error"] = failure
    return {**document, "note": job.rebalance.reason}


def _summary(job: RebalanceJob, result: RebalanceResult, error: str | None) -> dict[str, object]:
    return {
        "generation_id": job.rebalance.generation_id,
        "now_ms": job.now_ms,
        "reason": job.rebalance.reason,
        "outcome": None,
        "members": len(job.rebalance.members),
        "definition_revision": job.rebalance.definition_revision,
        "probing_rebalance_at_ms": result.probing_rebalance_at_ms,
        "followup_rebalance": result.followup_rebalance,
        "error": error,
    }


def topic_counts(topology: GroupTopology, existing: Mapping[str, int]) -> dict[str, int]:
    """Returns the partition count of every topic that the topology reads or uses as a changelog. The count of a topic
    that does not exist is 0.
    """
    return {topic: existing.get(topic, 0) for topic in sorted(topology.source_topics | topology.internal_topics)}


def topics_after(snapshot: RebalanceSnapshot, result: RebalanceResult) -> dict[str, int]:
    """Returns the topics that exist after the rebalance, including the topics that were created for the rebalance."""
    known = {**snapshot.cluster.topics, **snapshot.existing_internal_topics}
    existing = {topic: metadata.partitions for topic, metadata in known.items()}
    created = {topic: one.partitions for topic, one in result.created_topics.items()}
    return topic_counts(snapshot.topology, {**existing, **created})
