"""The codec/1 vectors, computed by Kafka's own codecs, and the values and JSON forms they speak of."""

import base64
import gzip
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from assignor.java.hash_map import JavaHashMap
from assignor.java.order import JavaHashSet
from assignor.protocol.assignment_info import AssignmentInfo, HostPartitions
from assignor.protocol.consumer_protocol import Assignment, Subscription
from assignor.protocol.subscription_info import SubscriptionInfo
from assignor.types import JAVA_LONG_MAX, HostInfo, ProcessId, TaskId, TopicPartition
from tests.checkout import VECTORS

Line = dict[str, Any]


@cache
def _all_lines() -> tuple[Line, ...]:
    with gzip.open(VECTORS / "codec.jsonl.gz", "rt", encoding="utf-8") as lines:
        return tuple(json.loads(line) for line in lines)


def lines_of(*operations: str) -> list[Line]:
    return [line for line in _all_lines() if line["op"] in operations]


def line_id(line: Line) -> str:
    return f"{line['op']}-{line['id']}"


def from_base64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def to_base64(raw: bytes | None) -> str | None:
    return None if raw is None else base64.b64encode(raw).decode()


def parse_partitions(rows: list[list[Any]]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, partition) for topic, partition in rows)


def parse_host(text: str) -> HostInfo:
    host, _, port = text.rpartition(":")
    return HostInfo(host, int(port))


def subscription_info(fields: Line) -> SubscriptionInfo:
    """Kafka held the tasks and the tags of these lines in hash maps, filled in the order of the line."""
    task_offset_sums = ((TaskId.parse(task), offset_sum) for task, offset_sum in fields["task_offset_sums"].items())
    return SubscriptionInfo(
        version=fields["version"],
        latest_supported_version=fields["latest_supported_version"],
        process_id=ProcessId.parse(fields["process_id"]),
        user_end_point=fields["user_end_point"],
        task_offset_sums=JavaHashMap(task_offset_sums),
        unique_field=fields["unique_field"],
        error_code=fields["error_code"],
        client_tags=JavaHashMap(fields["client_tags"].items()),
    )


def assignment_info(fields: Line) -> AssignmentInfo:
    """Kafka held the maps of these lines in hash maps, and each set in `new HashSet<>(list)`."""
    return AssignmentInfo(
        version=fields["version"],
        commonly_supported_version=fields["commonly_supported_version"],
        active_tasks=tuple(map(TaskId.parse, fields["active_tasks"])),
        standby_tasks=JavaHashMap(
            (TaskId.parse(task), _hash_set(partitions)) for task, partitions in fields["standby_tasks"].items()
        ),
        partitions_by_host=_host_map(fields["partitions_by_host"]),
        standby_partitions_by_host=_host_map(fields["standby_partitions_by_host"]),
        err_code=fields["err_code"],
        next_rebalance_ms=fields.get("next_rebalance_ms", JAVA_LONG_MAX),
    )


def _host_map(hosts: Line) -> HostPartitions:
    return JavaHashMap((parse_host(host), _hash_set(partitions)) for host, partitions in hosts.items())


def _hash_set(rows: list[list[Any]]) -> tuple[TopicPartition, ...]:
    return tuple(JavaHashSet.copy_of(parse_partitions(rows)))


def subscription(fields: Line) -> Subscription:
    return Subscription(
        topics=tuple(fields["topics"]),
        user_data=from_base64(fields["user_data_b64"]),
        owned_partitions=parse_partitions(fields["owned_partitions"]),
        generation_id=fields["generation_id"] if fields["generation_id"] >= 0 else None,
        rack=fields["rack"],
    )


def assignment(fields: Line) -> Assignment:
    return Assignment(parse_partitions(fields["partitions"]), from_base64(fields["user_data_b64"]))


def subscription_info_as_decoded(info: SubscriptionInfo) -> Line:
    if info.is_future:
        return {"version": info.version, "latest_supported_version": info.latest_supported_version}
    return {
        "version": info.version,
        "latest_supported_version": info.latest_supported_version,
        "process_id": str(info.process_id),
        "user_end_point": info.user_end_point,
        "task_offset_sums": {str(task): offset_sum for task, offset_sum in info.task_offset_sums.items()},
        "prev_tasks": sorted(map(str, info.prev_tasks)),
        "standby_tasks": sorted(map(str, info.standby_tasks)),
        "error_code": info.error_code,
        "client_tags": dict(info.client_tags),
    }


def assignment_info_as_decoded(info: AssignmentInfo) -> Line:
    return {
        "version": info.version,
        "commonly_supported_version": info.commonly_supported_version,
        "active_tasks": [str(task) for task in info.active_tasks],
        "standby_tasks": _rows_by_name(info.standby_tasks),
        "partitions_by_host": _rows_by_name(info.partitions_by_host),
        "standby_partitions_by_host": _rows_by_name(info.standby_partitions_by_host),
        "err_code": info.err_code,
        "next_rebalance_ms": info.next_rebalance_ms,
    }


def _rows_by_name(partitions: Mapping[Any, tuple[TopicPartition, ...]]) -> Line:
    return {str(name): sorted([topic, partition] for topic, partition in rows) for name, rows in partitions.items()}


def subscription_as_decoded(value: Subscription) -> Line:
    return {
        "topics": list(value.topics),
        "user_data_b64": to_base64(value.user_data),
        "owned_partitions": [list(owned) for owned in value.owned_partitions],
        "generation_id": value.generation_id,
        "rack": value.rack,
    }


def assignment_as_decoded(value: Assignment) -> Line:
    return {
        "partitions": [list(assigned) for assigned in value.partitions],
        "user_data_b64": to_base64(value.user_data),
    }


def without_set_order(decoded: Line) -> Line:
    """What Kafka has in sets, sorted, so that two decoded forms compare as sets do."""
    plain = dict(decoded)
    for name in ("prev_tasks", "standby_tasks", "partitions_by_host", "standby_partitions_by_host"):
        value = plain.get(name)
        if isinstance(value, list):
            plain[name] = sorted(value)
        elif isinstance(value, dict):
            plain[name] = {key: sorted(rows) for key, rows in value.items()}
    return plain
