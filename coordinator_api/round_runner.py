"""One round of a group: the definition and the members' subscriptions in, assignments and a recording out.

It may take seconds, so it runs in a thread beside the event loop. A cluster that the definition only names is looked at
first, and what the round needs there is created last, before any member hears of the round. What it records is what it
ran: the same `rebalance/1` line through `assignor assign --check` gives the same result.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from assignor import pipeline
from assignor.errors import InputError
from assignor.protocol.consumer_protocol import decode_subscription
from assignor.protocol.subscription_info import SubscriptionInfo, decode_subscription_info
from assignor.protocol.versions import LATEST_SUPPORTED_VERSION
from assignor.recording import rebalance_document
from assignor.snapshot import Member, RebalanceResult, RebalanceSnapshot
from assignor.types import ProcessId
from coordinator_api.cluster_providers import ClusterProviders
from coordinator_api.definitions import AllowedAssignors, Definition, read_input
from coordinator_api.group.events import AssignmentComputed, RebalanceFailed
from coordinator_api.group.outcome import RunRebalance
from coordinator_api.group.states import RoundOutcome
from coordinator_api.store.repository import Recording


@dataclass(frozen=True, slots=True)
class ComputedRound:
    """`event` goes back to the group; `document` is the rebalance/1 to keep once the group has taken it."""

    event: AssignmentComputed | RebalanceFailed
    document: Mapping[str, object]
    now_ms: int

    def recording(self, effect: RunRebalance, outcome: RoundOutcome) -> Recording:
        """The round as it is stored. Compresses, so it belongs in a thread for large groups."""
        output = self.document["output"]
        assert isinstance(output, dict)
        summary = {
            "generation_id": effect.generation_id,
            "now_ms": self.now_ms,
            "reason": str(effect.reason),
            "outcome": str(outcome),
            "members": len(effect.members),
            "definition_revision": effect.definition_revision,
            "probing_rebalance_at_ms": output["probing_rebalance_at_ms"],
            "followup_rebalance": output["followup_rebalance"],
            "error": output["error"],
        }
        # a fixed time stamp: the same rebalance is the same bytes
        noted = {**self.document, "note": str(effect.reason)}  # what only the group knows of how the round began
        document = gzip.compress(json.dumps(noted, separators=(",", ":")).encode("ascii"), mtime=0)
        return Recording(effect.generation_id, self.now_ms, json.dumps(summary), document)


class RoundRunner:
    """Runs the rounds of one group, one after the other; keeps the definition parsed between them."""

    def __init__(
        self,
        group_id: str,
        allowed: AllowedAssignors,
        new_process_id: Callable[[], ProcessId],
        providers: ClusterProviders | None = None,
    ) -> None:
        self._group_id = group_id
        self._allowed = allowed
        self._new_process_id = new_process_id
        self._providers = providers or ClusterProviders()
        self._revision = 0
        self._definition: Definition | None = None

    def run(self, effect: RunRebalance, now_ms: int) -> ComputedRound:
        """Never raises for what a group or a user's assignor does: that is a failed round."""
        definition = self._read(effect)
        snapshot = self._snapshot(effect, definition.snapshot)
        event: AssignmentComputed | RebalanceFailed
        try:
            provider = None if definition.provider is None else self._providers.provider(definition.provider)
            if provider is not None:
                snapshot = snapshot.seen(provider.view(self._group_id, snapshot))
            result = pipeline.assign(snapshot, now_ms, self._allowed.load(snapshot.assignor))
            if provider is not None and result.created_topics:
                provider.create_topics(result.created_topics)
            event = AssignmentComputed(effect.generation_id, result)
            error = None if result.error is None else result.error.as_recorded()
        except Exception as fault:  # a user's own assignor may raise anything, a cluster may be out of reach
            error = f"{type(fault).__name__}: {fault}"
            result = RebalanceResult({})
            event = RebalanceFailed(effect.generation_id, error)
        document = rebalance_document(
            id=f"{self._group_id}-{effect.generation_id}",
            group_id=self._group_id,
            generation_id=effect.generation_id,
            now_ms=now_ms,
            source="coordinator",
            snapshot=snapshot,
            result=result,
        )
        output = document["output"]
        assert isinstance(output, dict)
        output["error"] = error
        return ComputedRound(event, document, now_ms)

    def _read(self, effect: RunRebalance) -> Definition:
        if self._definition is None or self._revision != effect.definition_revision:
            self._definition = read_input(effect.input_json)
            self._revision = effect.definition_revision
        return self._definition

    def _snapshot(self, effect: RunRebalance, declared: RebalanceSnapshot) -> RebalanceSnapshot:
        future = declared.future_process_id
        if future is None and _has_future_member(effect.members):
            future = self._new_process_id()
        return replace(declared, members=effect.members, future_process_id=future)


def _has_future_member(members: Mapping[str, Member]) -> bool:
    """Whether Kafka's leader would draw a random id for members of a version it does not know."""
    return any(read_subscription(member.subscription).version > LATEST_SUPPORTED_VERSION for member in members.values())


def read_subscription(subscription: bytes) -> SubscriptionInfo:
    """The user data of a ConsumerProtocolSubscription. Raises DecodeError, or InputError where there is none."""
    user_data = decode_subscription(subscription).user_data
    if not user_data:
        raise InputError("has no user data: a Kafka Streams member sends a SubscriptionInfo", "subscription")
    return decode_subscription_info(user_data)
