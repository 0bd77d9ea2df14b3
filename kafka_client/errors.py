"""What can go wrong when Kafka itself is asked, in three words: not there, not willing, not known.

Each message is one line that names the address, what was asked for and what to check: commands print it as it is.
"""

from __future__ import annotations

from typing import ClassVar

from assignor.errors import AssignorFault


class KafkaClientError(AssignorFault):
    """Base of all errors of the clients of a Kafka cluster. `retriable`: asking again later may help."""

    retriable: ClassVar[bool] = False


class KafkaUnavailable(KafkaClientError):
    """No broker gave the answer within `default.api.timeout.ms`, tries included. Trying again later may work."""

    retriable: ClassVar[bool] = True


class KafkaRefused(KafkaClientError):
    """The brokers answered that they will not: credentials, rights, a version, an invalid request.

    Trying again without a change does not help; the message says what to change. `code`: Kafka's error code, if the
    answer had one.
    """

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class TopicHasOtherPartitions(KafkaRefused):
    """A topic that should be created is there with another number of partitions."""


class UnknownTopic(KafkaClientError):
    """There is no such topic, or it has fewer partitions than were asked for."""
