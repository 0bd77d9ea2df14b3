"""Converts the bytes of a subscription or assignment to plain data, for people and for JSON.

Tasks are written as `0_3`, partitions as `[topic, partition]`, and hosts as `host:port`. The field `user_data` contains
the decoded user data of the message.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from assignor.errors import InputError
from assignor.protocol import consumer_protocol
from assignor.protocol.assignment_info import HostPartitions, decode_assignment_info
from assignor.protocol.primitives import to_utf16_units
from assignor.protocol.subscription_info import SubscriptionInfo, decode_subscription_info
from assignor.types import JAVA_LONG_MAX, AssignorErrorCode, TopicPartition

Described = str | int | None | list["Described"] | dict[str, "Described"]
"""The types that JSON supports."""

# a later version of Kafka may send numbers that have no name here
_ERROR_NAMES = {code.value: code.name for code in AssignorErrorCode}


def describe(kind: str, data: bytes) -> dict[str, Described]:
    """Returns the decoded bytes as plain data. `kind`: the kind of the bytes, one of KINDS. Raises DecodeError for
    bytes of another kind, and InputError for an unknown kind.
    """
    described = _DESCRIBED_BY_KIND.get(kind)
    if described is None:
        raise InputError(f"{kind!r} is not one of {', '.join(KINDS)}", "kind")
    return described(data)


def _describe_subscription(data: bytes) -> dict[str, Described]:
    subscription = consumer_protocol.decode_subscription(data)
    user_data = subscription.user_data
    return {
        "version": consumer_protocol.wire_version(data),
        "topics": [_text(topic) for topic in subscription.topics],
        "owned_partitions": _partitions(subscription.owned_partitions),
        "generation_id": subscription.generation_id,
        "rack": None if subscription.rack is None else _text(subscription.rack),
        "user_data": None if user_data is None else _describe_subscription_info(user_data),
    }


def _describe_assignment(data: bytes) -> dict[str, Described]:
    assignment = consumer_protocol.decode_assignment(data)
    user_data = assignment.user_data
    return {
        "version": consumer_protocol.wire_version(data),
        "partitions": _partitions(assignment.partitions),
        "user_data": None if user_data is None else _describe_assignment_info(user_data),
    }


def _describe_subscription_info(data: bytes) -> dict[str, Described]:
    info = decode_subscription_info(data)
    versions: dict[str, Described] = {
        "version": info.version,
        "latest_supported_version": info.latest_supported_version,
    }
    return versions if info.is_future else versions | _subscription_fields(info)


def _subscription_fields(info: SubscriptionInfo) -> dict[str, Described]:
    prev_tasks, standby_tasks = info.prev_tasks, info.standby_tasks
    return {
        "process_id": str(info.process_id),
        "user_end_point": None if info.user_end_point is None else _text(info.user_end_point),
        "task_offset_sums": {_text(str(task)): offset_sum for task, offset_sum in info.task_offset_sums.items()},
        "prev_tasks": [_text(str(task)) for task in info.task_offset_sums if task in prev_tasks],
        "standby_tasks": [_text(str(task)) for task in info.task_offset_sums if task in standby_tasks],
        "unique_field": info.unique_field,
        "error_code": info.error_code,
        "error": _ERROR_NAMES.get(info.error_code),
        "client_tags": {_text(key): _text(value) for key, value in info.client_tags.items()},
    }


def _describe_assignment_info(data: bytes) -> dict[str, Described]:
    info = decode_assignment_info(data)
    return {
        "version": info.version,
        "commonly_supported_version": info.commonly_supported_version,
        "active_tasks": [_text(str(task)) for task in info.active_tasks],
        "standby_tasks": {_text(str(task)): _partitions(held) for task, held in info.standby_tasks.items()},
        "partitions_by_host": _hosts(info.partitions_by_host),
        "standby_partitions_by_host": _hosts(info.standby_partitions_by_host),
        "error_code": info.err_code,
        "error": _ERROR_NAMES.get(info.err_code),
        "next_rebalance_ms": None if info.next_rebalance_ms == JAVA_LONG_MAX else info.next_rebalance_ms,
    }


_DESCRIBED_BY_KIND: Mapping[str, Callable[[bytes], dict[str, Described]]] = MappingProxyType(
    {
        "subscription": _describe_subscription,
        "assignment": _describe_assignment,
        "subscription-info": _describe_subscription_info,
        "assignment-info": _describe_assignment_info,
    }
)

KINDS: tuple[str, ...] = tuple(_DESCRIBED_BY_KIND)
"""The kinds of bytes: the two messages of the consumer protocol, and the user data of each message alone."""


def _partitions(partitions: Iterable[TopicPartition]) -> list[Described]:
    return [[_text(topic), partition] for topic, partition in partitions]


def _hosts(hosts: HostPartitions) -> dict[str, Described]:
    return {_text(str(host)): _partitions(partitions) for host, partitions in hosts.items()}


def _text(text: str) -> str:
    """Replaces unpaired surrogates by U+FFFD, because no terminal or JSON file can contain unpaired surrogates."""
    return to_utf16_units(text).decode("utf-16-be", "replace")
