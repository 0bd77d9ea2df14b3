"""The parts of a member's subscription and assignment that the group protocol reads. Only the assignment pipeline reads
the remaining parts of a subscription.

The protocol compares subscriptions in two ways. If two subscriptions have an equal `rebalance_input`, a rebalance would
make the same decision with each of them. The `rebalance_input` has all fields except the unique field and the
generation. If the two subscriptions of a restarted member have an equal `static_identity`, the member is unchanged. The
`static_identity` has all fields except the unique field, the generation, the owned tasks and the offsets. The owned
tasks are left out because a restarted process owns no tasks. If bytes cannot be decoded, the protocol compares them
unchanged. Source: `ConsumerProtocolSubscription`, `SubscriptionInfo`.
"""

from collections.abc import Mapping
from dataclasses import replace

from assignor.errors import AssignorFault
from assignor.protocol import assignment_info
from assignor.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from assignor.protocol.shared_assignments import AssignmentParts
from assignor.protocol.subscription_info import (
    SubscriptionInfo,
    decode_member,
    encode_subscription_info,
    read_process_id,
)
from assignor.protocol.versions import LATEST_SUPPORTED_VERSION
from assignor.types import LATEST_OFFSET, AssignorErrorCode, ProcessId, TaskId


def rebalance_input(subscription: bytes) -> bytes:
    """Returns the subscription without its unique field and generation."""
    decoded = _decoded(subscription)
    if decoded is None:
        return subscription
    outer, info = decoded
    return _encoded(replace(outer, generation_id=None), replace(info, unique_field=0))


def static_identity(subscription: bytes) -> bytes:
    """Returns the fields that a static member cannot change without a rebalance: topics, process id, endpoint, tags,
    rack, versions, error code.
    """
    decoded = _decoded(subscription)
    if decoded is None:
        return subscription
    outer = replace(decoded[0], generation_id=None, owned_partitions=())
    return _encoded(outer, replace(decoded[1], unique_field=0, task_offset_sums={}))


def subscription_now(subscription: bytes, assignment: AssignmentParts | None, reported: Mapping[TaskId, int]) -> bytes:
    """Returns the subscription that the member would send if it rejoined now. This subscription contains the member's
    assigned tasks, with the offsets that the member has reported.

    `reported`: for each task, the offset sum from the member's heartbeats. An assigned active task without a reported
    sum counts as running. A standby task without a reported sum gets the sum from the last subscription. `reported` is
    empty for an absent member. An absent member has stopped cleanly, so its disk has the state of its last assignment.
    The last subscription of the member is older than its last assignment, and may name tasks that other members now
    run.
    """
    decoded = _decoded(subscription)
    if decoded is None or assignment is None:
        return subscription
    outer, info = decoded
    try:
        partitions, tasks = decode_assignment(bytes(assignment)).partitions, assigned_tasks(assignment)
    except AssignorFault:
        return subscription
    known = {**info.task_offset_sums, **reported}
    sums = {task: known[task] for task in tasks.standby if known.get(task, -1) >= 0}
    sums.update((task, reported.get(task, LATEST_OFFSET)) for task in tasks.active)
    return _encoded(replace(outer, owned_partitions=partitions), replace(info, task_offset_sums=sums))


def subscription_info(subscription: bytes) -> SubscriptionInfo | None:
    """Returns the user data of the subscription; None if the user data are not readable or not from Kafka Streams."""
    try:
        return decode_member(subscription).info
    except AssignorFault:
        return None


def subscribed_rack(subscription: bytes) -> str | None:
    """Returns the `client.rack` of the member; None if the member has no rack, or if the subscription's version has no
    rack.
    """
    return _outer(subscription).rack


def process_of(subscription: bytes) -> ProcessId | None:
    """Returns the process that the member runs in; None if the member's subscription has an unknown future version, or
    user data without a readable process id.
    """
    user_data = _outer(subscription).user_data
    try:
        return read_process_id(user_data) if user_data else None
    except AssignorFault:
        return None


def running_tasks(subscription: bytes) -> tuple[TaskId, ...]:
    """Returns the active tasks that the member named in its subscription, sorted."""
    decoded = _decoded(subscription)
    return () if decoded is None else tuple(sorted(decoded[1].prev_tasks))


def held_generation(subscription: bytes) -> int | None:
    """Returns the generation of the assignment that the member held when it subscribed. Returns None if the member held
    no assignment, or if the subscription's version has no generation.
    """
    return _outer(subscription).generation_id


def claims_tasks(subscription: bytes) -> bool:
    """Returns whether the subscription names partitions or tasks that the member owns."""
    return bool(_outer(subscription).owned_partitions or running_tasks(subscription))


def _outer(subscription: bytes) -> Subscription:
    """Returns the subscription without decoding its user data. Returns an empty subscription if the bytes cannot be
    decoded.
    """
    try:
        return decode_subscription(subscription)
    except AssignorFault:
        return Subscription(())


def assigned_tasks(assignment: AssignmentParts | bytes) -> assignment_info.TasksOfMember:
    """Returns the tasks of the assignment. The result is empty if the assignment has no readable user data of Kafka
    Streams. For example, a user's own assignor may write other user data.
    """
    try:
        return assignment_info.read_tasks(assignment.head if isinstance(assignment, AssignmentParts) else assignment)
    except AssignorFault:
        return assignment_info.TasksOfMember()


def assignment_error(assignment: AssignmentParts | bytes) -> int:
    """Returns the error code in an assignment. The code is 0 if the assignment has no error. The code is also 0 if the
    user data of the assignment cannot be read or are not from Kafka Streams.
    """
    if not isinstance(assignment, AssignmentParts) or not assignment.shared:
        assignment = assignment_info.split_assignment(bytes(assignment))
    try:
        return assignment_info.read_error_code(assignment)
    except AssignorFault:
        return 0


def error_assignment(code: AssignorErrorCode) -> bytes:
    """Returns an assignment that has an error code and no tasks. Source: `StreamsPartitionAssignor.errorAssignment`."""
    info = assignment_info.AssignmentInfo(LATEST_SUPPORTED_VERSION, err_code=code)
    return encode_assignment(Assignment((), assignment_info.encode_assignment_info(info)))


def _decoded(subscription: bytes) -> tuple[Subscription, SubscriptionInfo] | None:
    """Returns the decoded subscription and its user data. Returns None if the user data cannot be read, are not from
    Kafka Streams, or have a future version.
    """
    try:
        outer, info = decode_member(subscription)
    except AssignorFault:
        return None
    return None if info.is_future else (outer, info)


def _encoded(outer: Subscription, info: SubscriptionInfo) -> bytes:
    sums = dict(sorted(info.task_offset_sums.items(), key=lambda entry: str(entry[0])))
    tags = dict(sorted(info.client_tags.items()))
    user_data = encode_subscription_info(replace(info, task_offset_sums=sums, client_tags=tags))
    return encode_subscription(replace(outer, user_data=user_data))
