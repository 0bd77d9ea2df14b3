"""Every error this package raises.

Two families, because two people read them:

- `InputError`: the caller handed in something unusable (a config, a recording line, an option). Says where, and what
  to do.
- `KafkaError`: what Kafka's own leader would have thrown for this group. `kafka_name` is Kafka's simple class name, so
  that a recorded `"SimpleName: message"` can be compared and shown.

`DecodeError` is the one error of `assignor.protocol`: bytes that are not what they should be, with the offset.
"""

from __future__ import annotations

from typing import ClassVar


class AssignorFault(Exception):
    """Base of everything raised on purpose in this package."""


class InputError(AssignorFault, ValueError):
    """A caller's mistake. `where` names the field, key, file or line; the message says what to do about it."""

    def __init__(self, message: str, where: str | None = None) -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where


class NotBuiltYet(InputError):
    """A format feature that is known and refused until a later release (rack-aware placement, the KIP-924 assignor)."""


class DecodeError(AssignorFault, ValueError):
    """Bytes that cannot be read. `what` is the structure, `offset` the byte at which reading it failed."""

    def __init__(self, what: str, reason: str, offset: int) -> None:
        super().__init__(f"{what}: {reason} at byte {offset}")
        self.what = what
        self.reason = reason
        self.offset = offset


class KafkaError(AssignorFault):
    """What Kafka's leader would throw. `kafka_name`: Java simple class name; `__cause__` plays `getCause()`."""

    kafka_name: ClassVar[str] = "KafkaException"

    def as_recorded(self) -> str:
        """`"SimpleName: message"`, the form of `output.error` in rebalance/1."""
        return f"{self.kafka_name}: {self}"


class StreamsError(KafkaError):
    kafka_name = "StreamsException"


class TopologyError(KafkaError):
    kafka_name = "TopologyException"


class TaskAssignmentError(KafkaError):
    """Answered with an ASSIGNMENT_ERROR assignment, not thrown out of the pipeline."""

    kafka_name = "TaskAssignmentException"


class MissingSourceTopicError(KafkaError):
    """Answered with an INCOMPLETE_SOURCE_TOPIC_METADATA assignment, not thrown out of the pipeline."""

    kafka_name = "MissingSourceTopicException"


class IllegalStateError(KafkaError):
    kafka_name = "IllegalStateException"


class IllegalArgumentError(KafkaError):
    kafka_name = "IllegalArgumentException"


class ConfigError(KafkaError):
    kafka_name = "ConfigException"


class NumberFormatError(IllegalArgumentError):
    kafka_name = "NumberFormatException"
