"""If this project raises an error on purpose, the error is an `AssignorFault`.

The subclasses of `AssignorFault` are:

- `InputError`: the caller passed an invalid config, recording, option or name.
- `NotBuiltYet`, an `InputError`: this installation does not support the requested feature.
- `OwnAssignorFailed`, an `InputError`: a user's own task assignor raised an error or returned no placement.
- `UnreadableLogLine`, an `InputError`: a line of a JVM's log file is damaged or unknown.
- `DecodeError`: bytes cannot be decoded; the error has the offset.
- `KafkaError`: Kafka's leader would throw this exception. `KafkaError` has one subclass for each of Kafka's exception
  classes.
- `Unavailable`: a broker, coordinator, port or database is not available.
- `RebalanceNotPlaced`: a rebalance of a forecast ended without a placement. The function `forecast` catches this error.

`InputError` and `KafkaError` are separate classes because they call for different reactions. After an `InputError`, the
user can correct the input. A `KafkaError` reports a failure that a JVM group would have had as well. Packages that use
`assignor` define subclasses of the errors in this file for their own faults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping


class AssignorFault(Exception):
    """The base class of all errors of this project. The text of an error names the fault, its place, and the remedy.

    The errors can be pickled, because worker processes return them. Pickling preserves the fields. Pickling also
    preserves the cause if the cause is an `AssignorFault`.
    """

    def __reduce__(self) -> tuple[Callable[..., AssignorFault], tuple[object, ...]]:
        cause = self.__cause__ if isinstance(self.__cause__, AssignorFault) else None
        return _as_it_was, (type(self), self.args, self.__dict__, cause)


class InputError(AssignorFault, ValueError):
    """A caller's mistake. `where` names the field, key, file or line; the message says how to correct the mistake."""

    def __init__(self, message: str, where: str | None = None) -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where


class NotBuiltYet(InputError):
    """A feature that the formats define but this installation lacks, such as a cluster provider that is not
    installed.
    """


class OwnAssignorFailed(InputError):
    """The task assignor class that the user named raised an error or returned a wrong type. On a command line, the
    assignor class is the user's own code. In a service, the assignor class is installed code, so the caller of the
    service made no mistake.
    """


class UnreadableLogLine(InputError):
    """A line of a JVM's log file is cut off, or has a form that Kafka never writes. The program skips this line."""


class DecodeError(AssignorFault, ValueError):
    """Bytes that cannot be decoded. `what`: the name of the structure. `offset`: the byte at which decoding failed.

    `member_id`: the member whose subscription cannot be decoded; None if the member is unknown or the bytes are not a
    subscription.
    """

    def __init__(self, what: str, reason: str, offset: int, member_id: str | None = None) -> None:
        super().__init__(f"{what}: {reason} at byte {offset}")
        self.what = what
        self.reason = reason
        self.offset = offset
        self.member_id = member_id


class KafkaError(AssignorFault):
    """An exception that Kafka's leader would throw. `kafka_name`: the simple name of the Java class. `__cause__`
    corresponds to Java's `getCause()`.

    `message`: exactly Kafka's message if Kafka has one, because people search for this text. `hint`: this project's
    addition to the message, such as the member concerned or the remedy. The result of `str()` contains the message and
    the hint.
    """

    kafka_name: str = "KafkaException"

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    @property
    def message(self) -> str:
        return str(self.args[0])

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message} ({self.hint})"

    def as_recorded(self) -> str:
        """Returns `"SimpleName: message"`, the form of `output.error` in rebalance/1: Kafka's text without the hint."""
        return f"{self.kafka_name}: {self.message}"

    def with_hint(self) -> str:
        """Returns `"SimpleName: message (hint)"`, a text for people."""
        return f"{self.kafka_name}: {self}"


class StreamsError(KafkaError):
    """The rebalance cannot continue: an internal topic is wrong or cannot be created, or an assignor broke a rule."""

    kafka_name = "StreamsException"


class TopologyError(KafkaError):
    """A topology that Kafka's builder refuses, or topics whose partition counts contradict each other."""

    kafka_name = "TopologyException"


class TaskAssignmentError(KafkaError):
    """A fault for which the leader sends an ASSIGNMENT_ERROR assignment. The pipeline catches this error."""

    kafka_name = "TaskAssignmentException"


class MissingSourceTopicError(KafkaError):
    """A source topic does not exist, so the leader sends an INCOMPLETE_SOURCE_TOPIC_METADATA assignment. The pipeline
    catches this error.
    """

    kafka_name = "MissingSourceTopicException"


class ConfigError(KafkaError):
    """The group's leader cannot use a config of a member, such as an endpoint that is not host:port."""

    kafka_name = "ConfigException"


class IllegalStateError(KafkaError):
    """Members, tasks or lags that contradict each other."""

    kafka_name = "IllegalStateException"


class UnsupportedOperationError(KafkaError):
    """A caller asked for a value that was not computed, such as a lag when the caller did not request lags."""

    kafka_name = "UnsupportedOperationException"


class IllegalArgumentError(KafkaError):
    """A value that Kafka's class refuses."""

    kafka_name = "IllegalArgumentException"


class NumberFormatError(IllegalArgumentError):
    """The port of an endpoint is too large for an int."""

    kafka_name = "NumberFormatException"


class NullPointerError(KafkaError):
    """A NullPointerException of Kafka's leader. The message is Java's description of the failed expression."""

    kafka_name = "NullPointerException"


class UncheckedError(KafkaError):
    """A plain RuntimeException of Kafka, for a case that should never happen."""

    kafka_name = "RuntimeException"


class BrokersRefusal(KafkaError):
    """The cause of a StreamsError: an error that the brokers returned to the leader. `answer`: the class and text of
    the brokers' error, as `"SimpleName: message"`.
    """

    def __init__(self, answer: str) -> None:
        name, colon, message = answer.partition(": ")
        super().__init__(message if colon else answer)
        if colon:
            self.kafka_name = name


class Unavailable(AssignorFault):
    """A service or resource is not available. For example, a broker does not respond, a port is in use, or Spark does
    not start. A later attempt to use the service may succeed. Packages define subclasses of `Unavailable` for the
    services that they use.
    """


class RebalanceNotPlaced(AssignorFault):
    """A rebalance of a forecast ended without a placement. The text of the error contains the reason."""


def _as_it_was(
    kind: type[AssignorFault], args: tuple[object, ...], fields: Mapping[str, object], cause: AssignorFault | None
) -> AssignorFault:
    """Restores a pickled error without a call of `__init__`. The arguments of `__init__` differ by class, and can
    differ from the stored fields.
    """
    fault = kind.__new__(kind, *args)
    fault.__dict__.update(fields)
    if cause is not None:
        fault.__cause__ = cause
    return fault
