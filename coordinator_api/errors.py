"""Errors of requests that the coordinator cannot serve, each with Kafka's name of the error.

A group refuses a request by returning `group.outcome.Rejected`. The code that calls the groups raises the errors of
this file. Only `http/problems.py` converts the errors of this file to HTTP. Source of the names:
`org.apache.kafka.common.protocol.Errors`.
"""

from typing import ClassVar

from assignor.errors import AssignorFault, DecodeError


class CoordinatorFault(AssignorFault):
    """A request cannot be served. The message is one sentence for the user.

    `kafka_name`: Kafka's name of the error. `where`: the field that is wrong; None if the error concerns no field.
    """

    kafka_name: ClassVar[str]

    def __init__(self, message: str, where: str | None = None) -> None:
        super().__init__(message)
        self.where = where


class GroupNotFound(CoordinatorFault):
    """No group of this id is declared."""

    kafka_name = "GROUP_ID_NOT_FOUND"


class GroupIsLoading(CoordinatorFault):
    """No coordinator can serve this group yet. A coordinator is reading the group's log, or will soon take the group
    over. The caller may repeat the request.
    """

    kafka_name = "COORDINATOR_LOAD_IN_PROGRESS"


class UnreadableGroup(CoordinatorFault):
    """The log of this group cannot be read. The service leads only the groups whose logs can be read."""

    kafka_name = "KAFKA_STORAGE_ERROR"


class LogIsIntact(CoordinatorFault):
    """The log of this group can be read, so there is nothing to repair."""

    kafka_name = "INCONSISTENT_GROUP_PROTOCOL"


class LogBeyondRepair(CoordinatorFault):
    """No record in the log of this group can be kept. The message has advice."""

    kafka_name = "CORRUPT_MESSAGE"


class TooManyGroups(CoordinatorFault):
    """The service already has as many groups as its settings allow."""

    kafka_name = "POLICY_VIOLATION"


class TooManyRequests(CoordinatorFault):
    """The service already handles as many requests of this kind as it accepts. The caller may repeat the request.

    `retry_after_s`: the shortest pause before the repetition, in seconds.
    """

    kafka_name = "THROTTLING_QUOTA_EXCEEDED"

    def __init__(self, message: str, where: str | None = None, retry_after_s: int = 1) -> None:
        super().__init__(message, where)
        self.retry_after_s = retry_after_s


class AssignorNotListed(CoordinatorFault):
    """The service's settings do not list this `module:Class` assignor."""

    kafka_name = "UNSUPPORTED_ASSIGNOR"


class UnreadableBytes(CoordinatorFault):
    """A field of the request has bytes that cannot be read. `where`: the field. `offset`: the index of the byte at
    which reading failed.
    """

    kafka_name = "INVALID_REQUEST"

    def __init__(self, error: DecodeError, where: str) -> None:
        super().__init__(f"{where}: {error}", where)
        self.offset = error.offset
