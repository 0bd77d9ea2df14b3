"""The error codes in brokers' answers. Some codes are retriable. For other codes, this module has texts that explain
the error to the user.

Source: `Errors` of kafka-clients. A code is retriable if its exception in kafka-clients is a `RetriableException`.
"""

from aiokafka.errors import for_code

from kafka_client.errors import KafkaRefused, NotNow

NONE = 0
UNKNOWN_TOPIC_OR_PARTITION = 3
TOPIC_AUTHORIZATION_FAILED = 29
GROUP_AUTHORIZATION_FAILED = 30
CLUSTER_AUTHORIZATION_FAILED = 31
TOPIC_ALREADY_EXISTS = 36
CONCURRENT_TRANSACTIONS = 51
GROUP_ID_NOT_FOUND = 69
UNSTABLE_OFFSET_COMMIT = 88

_RETRIABLE = {
    2: "CORRUPT_MESSAGE",
    UNKNOWN_TOPIC_OR_PARTITION: "UNKNOWN_TOPIC_OR_PARTITION",
    5: "LEADER_NOT_AVAILABLE",
    6: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT",
    8: "BROKER_NOT_AVAILABLE",
    9: "REPLICA_NOT_AVAILABLE",
    13: "NETWORK_EXCEPTION",
    14: "COORDINATOR_LOAD_IN_PROGRESS",
    15: "COORDINATOR_NOT_AVAILABLE",
    16: "NOT_COORDINATOR",
    19: "NOT_ENOUGH_REPLICAS",
    20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    41: "NOT_CONTROLLER",
    CONCURRENT_TRANSACTIONS: "CONCURRENT_TRANSACTIONS",
    56: "KAFKA_STORAGE_ERROR",
    72: "LISTENER_NOT_FOUND",
    74: "FENCED_LEADER_EPOCH",
    75: "UNKNOWN_LEADER_EPOCH",
    78: "OFFSET_NOT_AVAILABLE",
    UNSTABLE_OFFSET_COMMIT: "UNSTABLE_OFFSET_COMMIT",
    89: "THROTTLING_QUOTA_EXCEEDED",
    100: "UNKNOWN_TOPIC_ID",
    103: "INCONSISTENT_TOPIC_ID",
}
_RIGHTS = {
    TOPIC_AUTHORIZATION_FAILED: "no right to use this topic",
    GROUP_AUTHORIZATION_FAILED: "no right to use this group",
    CLUSTER_AUTHORIZATION_FAILED: "no right to do this on the cluster",
    53: "no right to use this transactional id",
    65: "no right to use this delegation token",
}
_ERROR_TEXTS = {
    1: "the offset is out of range",
    17: "not a valid topic name",
    24: "not a valid group id",
    44: "a policy of the cluster or the topic's cleanup.policy forbids it",
}


def check(code: int, what: str, message: str | None = None) -> None:
    """Checks an error code of an answer. Raises NotNow for a retriable code, and KafkaRefused for any other code except
    NONE.

    `what`: the topic, partition or group that the code belongs to, for the error message. `message`: the error text
    that the broker sent, if any.
    """
    if code == NONE:
        return
    if code in _RETRIABLE:
        raise NotNow(f"{what}: {_RETRIABLE[code]}", code)
    if code in _RIGHTS:
        raise KafkaRefused(f"{what}: {_RIGHTS[code]}; give the user of these credentials an ACL for it", code)
    raise KafkaRefused(f"{what}: {message or _ERROR_TEXTS.get(code) or error_name(code)}", code)


def is_retriable(code: int) -> bool:
    return code in _RETRIABLE


def error_name(code: int) -> str:
    """Returns the name of aiokafka's exception for the error code. The name is similar to Kafka's name for the
    error.
    """
    name: str = for_code(code).__name__.removesuffix("Error")
    return name if name != "Unknown" else f"error {code}"
