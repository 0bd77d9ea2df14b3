"""Whether a group that looks well is not, and what an operator can do about a group, in one or two sentences.

The state of a group is Kafka's, and says nothing about work: a group whose topics are missing is Stable. So there is
its condition beside it. The advice names what ends the present state, and says whether the group then goes on by
itself.
"""

from __future__ import annotations

from assignor.snapshot import RebalanceSnapshot
from assignor.topology.internal_topics import missing_source_topics
from assignor.types import AssignorErrorCode, Role
from coordinator_api.group.description import GroupDescription
from coordinator_api.group.image import GroupImage, LastRebalance
from coordinator_api.group.states import GroupState, RebalanceOutcome

_NO_TASKS = "NO_TASKS"
_OTHER_PARTITIONS = "has invalid partitions"


def condition(group: GroupImage, has_active_task: bool | None) -> str | None:
    """Why a group does no work though its state is Stable; None for one that works, or that is led elsewhere.

    `has_active_task`: whether anybody has one, None when that is not known.
    """
    last = group.last_rebalance
    if group.state is not GroupState.STABLE or last is None or group.led_by is not None:
        return None
    if last.awaits_topics() or last.end.error_code == AssignorErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA:
        return "MISSING_SOURCE_TOPICS"
    if last.end.outcome is RebalanceOutcome.ERROR:
        return "REBALANCE_FAILED"
    if group.levers.pause is not None:
        return "PAUSED"
    comes_by_itself = last.end.outcome is RebalanceOutcome.FOLLOW_UP
    return _NO_TASKS if has_active_task is False and not comes_by_itself else None


def has_active_task(group: GroupDescription) -> bool | None:
    """None without members, who alone could have any."""
    if not group.members:
        return None
    return any(copy.role is Role.ACTIVE for member in group.members for copy in member.tasks)


def advice(
    group: GroupDescription, definition: RebalanceSnapshot, cluster: str | None, cluster_error: str | None
) -> str | None:
    """`cluster`: the address that the definition names, None when it describes its cluster. `cluster_error`: why the
    cluster did not answer, None when it did.
    """
    if group.image.led_by is not None:
        return None
    if group.held is not None:
        return (
            f"Look at the rebalance of generation {group.held.generation_id} with `assignor groups held "
            f"{group.group_id}`, then approve or discard it. Members keep the tasks they have meanwhile."
        )
    if cluster_error is not None and group.image.state is GroupState.COMPLETING_REBALANCE:
        return (
            f"The rebalance waits for the cluster: {cluster_error}. Members keep the tasks they have, "
            "and the rebalance goes on by itself when the cluster answers."
        )
    last = group.image.last_rebalance
    if (
        last is not None
        and last.end.outcome is RebalanceOutcome.ERROR
        and group.image.state in (GroupState.STABLE, GroupState.EMPTY)
    ):
        return _after_error(group, last, definition, cluster)
    if group.image.levers.pause is not None:
        return "An operator has paused the group. Nothing is processed until it is resumed: `assignor groups resume`."
    if condition(group.image, has_active_task(group)) == _NO_TASKS:
        return (
            "No member has a task, so nothing is processed. See `assignor rebalances show` for the reasons of the last "
            "rebalance, and whether the topology reads any topic that has partitions."
        )
    if cluster_error is not None:
        return (
            f"The cluster does not answer: {cluster_error}. Members keep the tasks they have; "
            "the coordinator asks it again until it answers."
        )
    return None


def _after_error(
    group: GroupDescription, last: LastRebalance, definition: RebalanceSnapshot, cluster: str | None
) -> str:
    has_members = bool(group.members)
    if last.end.error_code == AssignorErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA:
        if cluster is None:
            missing = missing_source_topics(definition.topology, definition.cluster)
            return f"The definition's cluster lacks source topics: {', '.join(missing)}. PUT one that has them."
        then = "the coordinator then starts a rebalance." if has_members else "then start the members again."
        return f"Source topics are missing on {cluster}: {', '.join(last.basis.missing_topics)}. Create them; {then}"
    if _OTHER_PARTITIONS in (last.end.error or ""):
        then = "then start them again." if cluster is not None else "then PUT a definition without it."
        return (
            "An internal topic was made for another number of source partitions. Stop all members, then reset the "
            "application (bin/kafka-streams-application-reset.sh, which loses its state) or delete the topic named "
            f"in the error; {then}"
        )
    again = "when a member joins, a topic of the group changes, or a definition is PUT"
    return f"The last rebalance failed. It is tried again {again}, and not before that."
