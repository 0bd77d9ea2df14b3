"""One rebalance as values: everything that the leader knew, and everything that it decided.

`RebalanceSnapshot` is `input` of `rebalance/1` with its text parsed, `RebalanceResult` is `output` before it is
written.
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
    """One member as the leader received it. `subscription`: bytes of ConsumerProtocolSubscription."""

    subscription: bytes
    client_id: str | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What the leader reads from the cluster when it decides. `changelog_end_offsets`: None when the look-up failed;
    then the tasks are placed without lags. `created_internal_topics`: what describing the topics answers that the
    rebalance has just created, for a rack-aware strategy; None before.
    """

    cluster: Cluster
    existing_internal_topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    changelog_end_offsets: Mapping[str, tuple[int, ...]] | None = field(default_factory=dict)
    committed_offsets: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)
    failures: frozenset[str] = frozenset()
    created_internal_topics: Mapping[str, TopicMetadata] | None = None

    def with_created(self, created: Iterable[str], after: ClusterView) -> ClusterView:
        """`after`: the cluster once the topics of `created` exist. They still count as created now, and nothing else is
        looked at again.
        """
        existing = after.existing_internal_topics
        described = {topic: existing[topic] for topic in created if topic in existing}
        return replace(self, created_internal_topics=described)


@dataclass(frozen=True, slots=True)
class RebalanceSnapshot:
    """`members`: in the order the leader received them. `failures`: names of look-ups that failed, see `rebalance/1`.

    `leader_process_id`: None when the leader is not a member of the group. `future_process_id`: the id of the dummy
    client for members of an unknown future version; random in Kafka, given here, and needed only when there are such
    members. `created_internal_topics`: what describing the topics answers that this rebalance creates; a recorder
    sees it, and a leader asks for it when a rack-aware strategy needs it. `topics_refusal`: what the brokers answered
    to the call about internal topics in `failures`, as `"SimpleName: message"`; None: not known. `steering`: what
    operators ask for beside Kafka's rules.
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
        """The same group on the cluster of `view`."""
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
    """What the leader sends, and what has to be done besides.

    `assignments`: member id to ConsumerProtocolAssignment, for every member; empty when `error` is set.
    `internal_topics`: every internal topic that is ready now, with its partition count; `created_topics`: those of
    them that have to be created. `probing_rebalance_at_ms`: when the group has to rebalance again;
    `followup_rebalance`: a task waits until its owner gives it up, so the group rebalances again at once.
    `error_code`: the code inside an error assignment. `error`: what Kafka's leader would have thrown. `placement`:
    tasks by process, before they are assigned to threads and held back; None when nothing was placed. `problem`: what
    the task assignor was asked, with every client's lags and previous tasks; None when the rebalance ended before
    that.
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
