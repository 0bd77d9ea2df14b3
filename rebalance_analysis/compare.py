"""Compares a result of this program with a recorded result. The comparison is made twice: after decoding, and byte for
byte.

The comparison after decoding respects the order of partitions and active tasks. Standby tasks and host maps are
compared as sets. In the bytes, the order of standby tasks and host maps comes from Java's hash maps. Receivers ignore
this order. Two errors are equal if they have the same class. Different messages, causes or bytes are reported
separately.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from assignor.errors import DecodeError, KafkaError
from assignor.pipeline.snapshot import RebalanceResult
from assignor.protocol.assignment_info import AssignmentInfo, HostPartitions, decode_assignment_info
from assignor.protocol.consumer_protocol import decode_assignment
from assignor.recording.rebalance import RecordedOutput
from assignor.task_assignors.base import ClientPlacement, Placement
from assignor.task_assignors.streams_groups.member_sticky import MemberAssignment

_Copies = ClientPlacement | MemberAssignment

_STREAM_THREAD = re.compile(r"stream-thread \[[^\]]*\] ")
"""Matches the name of the leader's thread in an error text. Thread names are not compared. The recorded input has no
thread names, so the error texts of this program have empty names.
"""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of a result with a recorded result. `differences`: one line for each difference after decoding;
    empty if the results are equal after decoding. `bytes_equal`: True if the results are also equal byte for byte.
    `is_error`: True if the recorded leader threw an exception. `error_differences`: one line for each difference of
    message or cause between two errors of the same class.
    """

    differences: tuple[str, ...]
    bytes_equal: bool
    is_error: bool = False
    error_differences: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        return not self.differences


def compare_rebalance(result: RebalanceResult, recorded: RecordedOutput) -> Comparison:
    """Compares this program's result with the recorded output."""
    differences = tuple(_rebalance_differences(result, recorded))
    return Comparison(
        differences,
        not differences and result.assignments == recorded.assignments,
        recorded.error is not None,
        tuple(_error_differences(result.error, recorded)),
    )


def compare_placement(placement: Placement, recorded: Placement) -> Comparison:
    """Compares this program's placement with the recorded placement. A placement has no bytes to compare, so
    `bytes_equal` is True if the placements are equal.
    """
    differences = tuple(_placement_differences(placement, recorded))
    return Comparison(differences, not differences)


def compare_streams_group(
    placed: Mapping[str, MemberAssignment], recorded: Mapping[str, MemberAssignment]
) -> Comparison:
    """Compares this program's assignments of a streams group with the recorded assignments, member by member."""
    differences = []
    for member in sorted({*placed, *recorded}):
        ours, theirs = placed.get(member), recorded.get(member)
        if ours is None or theirs is None:
            differences.append(f"member {member}: {'not placed' if ours is None else 'not in the recording'}")
        elif ours != theirs:
            differences += list(_copies_differences(f"member {member}", ours, theirs))
    return Comparison(tuple(differences), not differences)


def _copies_differences(what: str, ours: _Copies, theirs: _Copies) -> Iterator[str]:
    for role, our_tasks, their_tasks in (
        ("active", ours.active, theirs.active),
        ("standby", ours.standby, theirs.standby),
    ):
        if our_tasks != their_tasks:
            yield f"{what}: " + _difference(role, _listed(sorted(our_tasks)), _listed(sorted(their_tasks)))


def _rebalance_differences(result: RebalanceResult, recorded: RecordedOutput) -> Iterator[str]:
    error = None if result.error is None else result.error.kafka_name
    recorded_error = None if recorded.error is None else _java_class(recorded.error)
    if error != recorded_error:
        yield _difference("error", result.error and result.error.as_recorded(), recorded.error)
    yield from _mapping_differences("internal topic", result.internal_topics, recorded.internal_topics)
    yield from _created_differences(result, recorded)
    for name, ours, theirs in (
        ("probing_rebalance_at_ms", result.probing_rebalance_at_ms, recorded.probing_rebalance_at_ms),
        ("followup_rebalance", result.followup_rebalance, recorded.followup_rebalance),
    ):
        if ours != theirs:
            yield _difference(name, ours, theirs)
    for member_id in {**recorded.assignments, **result.assignments}:
        ours_raw, theirs_raw = result.assignments.get(member_id), recorded.assignments.get(member_id)
        if ours_raw is None or theirs_raw is None:
            yield f"member {member_id}: {'not assigned' if ours_raw is None else 'assigned, but not in the recording'}"
        elif ours_raw != theirs_raw:
            yield from assignment_differences(f"member {member_id}", ours_raw, theirs_raw)


def _error_differences(error: KafkaError | None, recorded: RecordedOutput) -> Iterator[str]:
    if error is None or recorded.error is None or _java_class(recorded.error) != error.kafka_name:
        # There is no error to compare, or the error classes differ. If they differ, `_rebalance_differences` reports
        # this.
        return
    ours, theirs = error.as_recorded(), _STREAM_THREAD.sub("stream-thread [] ", recorded.error)
    if ours != theirs:
        yield _difference("error", ours, theirs)
    cause = error.__cause__.as_recorded() if isinstance(error.__cause__, KafkaError) else None
    if cause != recorded.error_cause:
        yield _difference("error_cause", cause, recorded.error_cause)


def _java_class(error: str) -> str:
    return error.partition(":")[0]


def assignment_differences(what: str, ours: bytes, theirs: bytes) -> Iterator[str]:
    """Yields the differences between two ConsumerProtocolAssignments after decoding. If an assignment cannot be
    decoded, yields this as a difference. `what`: the text with which each difference begins.
    """
    try:
        our_assignment, their_assignment = decode_assignment(ours), decode_assignment(theirs)
        our_info = decode_assignment_info(our_assignment.user_data or b"")
        their_info = decode_assignment_info(their_assignment.user_data or b"")
    except DecodeError as error:
        yield f"{what}: {error}"
        return
    if our_assignment.partitions != their_assignment.partitions:
        yield f"{what}: " + _difference(
            "partitions", _listed(our_assignment.partitions), _listed(their_assignment.partitions)
        )
    our_fields, their_fields = _comparable(our_info), _comparable(their_info)
    for name, value in our_fields.items():
        if value != their_fields[name]:
            yield f"{what}: " + _difference(name, value, their_fields[name])


def _comparable(info: AssignmentInfo) -> dict[str, object]:
    return {
        "version": info.version,
        "commonly supported version": info.commonly_supported_version,
        "active tasks": [str(task) for task in info.active_tasks],
        "standby tasks": {str(task): sorted(parts) for task, parts in sorted(info.standby_tasks.items())},
        "hosts": _hosts(info.partitions_by_host),
        "standby hosts": _hosts(info.standby_partitions_by_host),
        "error code": info.err_code,
        "next rebalance": info.next_rebalance_ms,
    }


def _hosts(hosts: HostPartitions) -> dict[str, list[str]]:
    return {str(host): sorted(map(str, partitions)) for host, partitions in sorted(hosts.items())}


def _created_differences(result: RebalanceResult, recorded: RecordedOutput) -> Iterator[str]:
    if recorded.created_topics is None:
        return
    for name in sorted({*result.created_topics, *recorded.created_topics}):
        ours, theirs = result.created_topics.get(name), recorded.created_topics.get(name)
        if ours is None or theirs is None:
            yield f"created topic {name}: {'not created' if ours is None else 'created, but not in the recording'}"
            continue
        if ours.partitions != theirs.partitions:
            yield _difference(f"partitions of {name}", ours.partitions, theirs.partitions)
        if theirs.replication_factor is not None and ours.replication_factor != theirs.replication_factor:
            yield _difference(f"replication factor of {name}", ours.replication_factor, theirs.replication_factor)
        if theirs.configs is not None and dict(ours.configs) != dict(theirs.configs):
            yield _difference(f"configs of {name}", dict(ours.configs), dict(theirs.configs))


def _placement_differences(placement: Placement, recorded: Placement) -> Iterator[str]:
    if placement.probing_rebalance_needed != recorded.probing_rebalance_needed:
        yield _difference(
            "probing_rebalance_needed", placement.probing_rebalance_needed, recorded.probing_rebalance_needed
        )
    for process_id in sorted({*placement.clients, *recorded.clients}):
        ours, theirs = placement.clients.get(process_id), recorded.clients.get(process_id)
        if ours is None or theirs is None:
            yield f"client {process_id}: {'not placed' if ours is None else 'placed, but not in the recording'}"
            continue
        yield from _copies_differences(f"client {process_id}", ours, theirs)


def _mapping_differences(what: str, ours: Mapping[str, int], theirs: Mapping[str, int]) -> Iterator[str]:
    for name in sorted({*ours, *theirs}):
        if ours.get(name) != theirs.get(name):
            yield _difference(f"{what} {name}", ours.get(name), theirs.get(name))


def _listed(items: object) -> str:
    assert isinstance(items, (list, tuple))
    return f"[{', '.join(map(str, items))}]"


def _difference(what: str, ours: object, theirs: object) -> str:
    return f"{what} is {ours}, recorded is {theirs}"
