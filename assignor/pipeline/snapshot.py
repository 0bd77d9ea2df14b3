"""The complete input and output of a rebalance.

`RebalanceSnapshot` is the parsed field `input` of a rebalance/1 document. `RebalanceResult` corresponds to the field
`output` of a rebalance/1 document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from assignor.configs import AssignmentConfigs
from assignor.errors import KafkaError
from assignor.protocol.shared_assignments import NO_ASSIGNMENTS, SharedAssignments
from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.task_assignors.decisions import Decision
from assignor.task_assignors.steering import NO_STEERING, Steering
from assignor.topology.cluster import Cluster, TopicMetadata
from assignor.topology.group_topology import GroupTopology
from assignor.topology.internal_topics import CreatedTopic as CreatedTopic
from assignor.types import AssignorErrorCode, ProcessId


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the group, as the leader received it. `subscription`: the bytes of the member's
    ConsumerProtocolSubscription.
    """

    subscription: bytes
    client_id: str | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The data that the leader reads from the cluster for a rebalance. `changelog_end_offsets`: the end offset of each
    changelog partition, by topic; None if the look-up failed. If the look-up failed, tasks are placed without lags.
    `created_internal_topics`: the descriptions of the topics that this rebalance has created, which a rack-aware
    strategy needs; None before the topics are created.
    """

    cluster: Cluster
    existing_internal_topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    changelog_end_offsets: Mapping[str, tuple[int, ...]] | None = field(default_factory=dict)
    committed_offsets: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)
    failures: frozenset[str] = frozenset()
    created_internal_topics: Mapping[str, TopicMetadata] | None = None

    def with_created(self, created: Iterable[str], after: ClusterView) -> ClusterView:
        """Returns this view with the descriptions of the topics that the rebalance has created. `created`: the names of
        the created topics. `after`: a view that was read after the topics were created; only the descriptions of the
        created topics are taken from this view.
        """
        existing = after.existing_internal_topics
        described = {topic: existing[topic] for topic in created if topic in existing}
        return replace(self, created_internal_topics=described)


@dataclass(frozen=True, slots=True)
class RebalanceSnapshot:
    """The complete input of a rebalance. `members`: the members, in the order in which the leader received them.
    `failures`: the names of the look-ups that failed, as in the field `failures` of rebalance/1.

    `leader_process_id`: the leader's process; None if the leader is not a member of the group. `future_process_id`: the
    id of the dummy client for members of an unknown future version. In Kafka, the id of the dummy client is random. The
    dummy client exists only if the group has members of an unknown future version. `created_internal_topics`: the
    descriptions of the topics that this rebalance creates. A recorder always records the descriptions of created
    topics. A leader reads the descriptions only if a rack-aware strategy needs them. `topics_refusal`: the brokers'
    error for the failed call about internal topics (see `failures`), as `"SimpleName: message"`; None if the error is
    unknown. `steering`: the instructions of operators.
    """

    assignor: str
    configs: AssignmentConfigs
    application_id: str
    topology: GroupTopology
    cluster: Cluster
    members: Mapping[str, Member]
    existing_internal_topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    changelog_end_offsets: Mapping[str, tuple[int, ...]] | None = field(default_factory=dict)
    committed_offsets: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)
    failures: frozenset[str] = frozenset()
    leader_process_id: ProcessId | None = None
    future_process_id: ProcessId | None = None
    created_internal_topics: Mapping[str, TopicMetadata] | None = None
    topics_refusal: str | None = None
    steering: Steering = NO_STEERING

    def seen(self, view: ClusterView) -> RebalanceSnapshot:
        """Returns a snapshot of the same group, with the data from `view`."""
        return replace(
            self,
            cluster=view.cluster,
            existing_internal_topics=view.existing_internal_topics,
            changelog_end_offsets=view.changelog_end_offsets,
            committed_offsets=view.committed_offsets,
            failures=view.failures,
            created_internal_topics=view.created_internal_topics,
        )


@dataclass(frozen=True, slots=True)
class RebalanceResult:
    """The complete output of a rebalance.

    `assignments`: the ConsumerProtocolAssignment of every member, by member id; empty if `error` is set.
    `internal_topics`: every internal topic that the tasks need, with its partition count; after an error, only the
    created topics. `created_topics`: the topics that have to be created. `probing_rebalance_at_ms`: the time of the
    next probing rebalance, in milliseconds since 1970. `followup_rebalance`: True if the group has to rebalance again
    immediately. The reason is a task that its owner has not revoked yet. `error_code`: the code in an error assignment.
    `error`: the exception that Kafka's leader would have thrown. `placement`: the tasks of each process, as the task
    assignor placed them; None if no task was placed. `problem`: the input of the task assignor, with every client's
    lags and previous tasks; None if the rebalance ended before the task assignor ran.
    """

    assignments: SharedAssignments = field(default_factory=lambda: NO_ASSIGNMENTS)
    internal_topics: Mapping[str, int] = field(default_factory=dict)
    created_topics: Mapping[str, CreatedTopic] = field(default_factory=dict)
    probing_rebalance_at_ms: int | None = None
    followup_rebalance: bool = False
    error: KafkaError | None = None
    error_code: AssignorErrorCode = AssignorErrorCode.NONE
    decisions: Sequence[Decision] = ()
    placement: Placement | None = None
    problem: PlacementProblem | None = None
