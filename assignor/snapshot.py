"""One rebalance as values: all that the leader knew, and all that it decided.

`RebalanceSnapshot` is `input` of `rebalance/1` with its text parsed, `RebalanceResult` is `output` before it is
written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from assignor.cluster import Cluster, TopicMetadata
from assignor.configs import AssignmentConfigs
from assignor.decisions import Decision
from assignor.errors import KafkaError
from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.topology.group_topology import GroupTopology
from assignor.topology.internal_topics import CreatedTopic as CreatedTopic
from assignor.types import AssignorErrorCode, ProcessId


@dataclass(frozen=True, slots=True)
class Member:
    """`subscription`: bytes of ConsumerProtocolSubscription, as the member sent them."""

    subscription: bytes
    client_id: str | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The part of a snapshot that a cluster tells at the moment of the round. `changelog_end_offsets` None: the
    look-up failed, and the placement does without lags.
    """

    cluster: Cluster
    existing_internal_topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    changelog_end_offsets: Mapping[str, tuple[int, ...]] | None = field(default_factory=dict)
    committed_offsets: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)
    failures: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RebalanceSnapshot:
    """`members` are in the order the leader received them. `failures` name look-ups that failed, see `rebalance/1`.

    `leader_process_id`: None when the leader is out of process. `future_process_id`: the id of the dummy client for
    members of an unknown future version, random in Kafka and pinned here; needed only when there are any.
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

    def seen(self, view: ClusterView) -> RebalanceSnapshot:
        """The same group on the cluster as it is in `view`."""
        return replace(
            self,
            cluster=view.cluster,
            existing_internal_topics=view.existing_internal_topics,
            changelog_end_offsets=view.changelog_end_offsets,
            committed_offsets=view.committed_offsets,
            failures=view.failures,
        )


@dataclass(frozen=True, slots=True)
class RebalanceResult:
    """What the leader sends and what has to be done besides.

    `assignments`: member id to bytes of ConsumerProtocolAssignment, for every member; empty when `error` is set.
    `internal_topics`: every internal topic made ready, with its partition count; `created_topics`: those to create now.
    `probing_rebalance_at_ms`: when to look again; `followup_rebalance`: a task waits to be revoked, so look again now.
    `error_code`: the code inside an error assignment. `error`: what Kafka's leader would have thrown.
    `placement`: tasks to processes before threads and revocation; None when there was none. `problem`: what the task
    assignor was asked, with every client's lags and previous tasks; None when the round ended before that.
    """

    assignments: Mapping[str, bytes]
    internal_topics: Mapping[str, int] = field(default_factory=dict)
    created_topics: Mapping[str, CreatedTopic] = field(default_factory=dict)
    probing_rebalance_at_ms: int | None = None
    followup_rebalance: bool = False
    error: KafkaError | None = None
    error_code: AssignorErrorCode = AssignorErrorCode.NONE
    decisions: tuple[Decision, ...] = ()
    placement: Placement | None = None
    problem: PlacementProblem | None = None
