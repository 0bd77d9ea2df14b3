"""Requests that the coordinator cannot serve, each under the error name that Kafka has for it.

The group's own rules refuse with a value (`group.outcome.Rejected`); these errors are raised around the group. HTTP
translates them once, in `http/problems.py`. Source of the names: `org.apache.kafka.common.protocol.Errors`.
"""

from __future__ import annotations

from typing import ClassVar

from assignor.errors import AssignorFault, DecodeError


class CoordinatorFault(AssignorFault):
    """A request that cannot be served; the message is one sentence for people.

    `kafka_name`: Kafka's name of the error. `where`: the field that is wrong, None when the error is about no field.
    """

    kafka_name: ClassVar[str]

    def __init__(self, message: str, where: str | None = None) -> None:
        super().__init__(message)
        self.where = where


class GroupNotFound(CoordinatorFault):
    """No group of this id is declared."""

    kafka_name = "GROUP_ID_NOT_FOUND"


class GroupIsLoading(CoordinatorFault):
    """A coordinator is about to own this group, or has its log to read first. Trying again helps."""

    kafka_name = "COORDINATOR_LOAD_IN_PROGRESS"


class UnreadableGroup(CoordinatorFault):
    """The log of this group cannot be read. The service leads the other groups, and not this one."""

    kafka_name = "KAFKA_STORAGE_ERROR"


class LogIsIntact(CoordinatorFault):
    """There is nothing to repair in the log of this group."""

    kafka_name = "INCONSISTENT_GROUP_PROTOCOL"


class LogBeyondRepair(CoordinatorFault):
    """Nothing in the log of this group can be kept. The message says what can be done."""

    kafka_name = "CORRUPT_MESSAGE"


class TooManyGroups(CoordinatorFault):
    """The service has as many groups as its settings allow."""

    kafka_name = "POLICY_VIOLATION"


class TooManyRequests(CoordinatorFault):
    """The service is working on as many requests of this kind as it can take; trying again helps.

    `retry_after_s`: after how many seconds, at least.
    """

    kafka_name = "THROTTLING_QUOTA_EXCEEDED"

    def __init__(self, message: str, where: str | None = None, retry_after_s: int = 1) -> None:
        super().__init__(message, where)
        self.retry_after_s = retry_after_s


class AssignorNotListed(CoordinatorFault):
    """The service's settings do not list this `module:Class` assignor."""

    kafka_name = "UNSUPPORTED_ASSIGNOR"


class UnreadableBytes(CoordinatorFault):
    """Bytes inside the field `where` cannot be read. `offset`: the byte of them at which reading failed."""

    kafka_name = "INVALID_REQUEST"

    def __init__(self, error: DecodeError, where: str) -> None:
        super().__init__(f"{where}: {error}", where)
        self.offset = error.offset
