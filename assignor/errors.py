"""Every error that this project raises on purpose is an `AssignorFault`.

```
AssignorFault
├── InputError                 the caller handed in something unusable: a config, a recording, an option, a name
│   ├── NotBuiltYet            a feature that is known, and refused until a later release
│   ├── OwnAssignorFailed      a task assignor of the user's own raised an error or returned no placement
│   └── UnreadableLogLine      a line of a JVM's log that is cut off, or not one that Kafka writes
├── DecodeError                bytes that are not what they should be, with the offset
├── KafkaError                 what Kafka's own leader would have thrown, one class for each of Kafka's
│   ├── StreamsError  TopologyError  TaskAssignmentError  MissingSourceTopicError  ConfigError
│   ├── IllegalStateError  UnsupportedOperationError  NullPointerError  UncheckedError  BrokersRefusal
│   └── IllegalArgumentError
│       └── NumberFormatError
├── Unavailable                nobody could be asked: no broker, no coordinator, a port or a database that is taken
└── RebalanceNotPlaced         a forecast's rebalance ended without a placement; `forecast` catches it
```

`InputError` and `KafkaError` are apart because two people read them: one can correct the input, the other sees what a
JVM group would have seen. Each package above the library has its own branch below `AssignorFault`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping


class AssignorFault(Exception):
    """The root. Its text is for a person: what is wrong, where, and what to do about it.

    Pickled, it comes back as it was, with its fields and its cause if that is one of ours: work may be done in another
    process.
    """

    def __reduce__(self) -> tuple[Callable[..., AssignorFault], tuple[object, ...]]:
        cause = self.__cause__ if isinstance(self.__cause__, AssignorFault) else None
        return _as_it_was, (type(self), self.args, self.__dict__, cause)


class InputError(AssignorFault, ValueError):
    """A caller's mistake. `where` names the field, key, file or line; the message says what to do about it."""

    def __init__(self, message: str, where: str | None = None) -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where


class NotBuiltYet(InputError):
    """A feature that the formats know and this installation lacks, such as a provider of clusters."""


class OwnAssignorFailed(InputError):
    """The class that the user named raised an error, or returned something else than it must. On a command line that is
    the user's own code; in a service it is installed code, and no mistake of the caller.
    """


class UnreadableLogLine(InputError):
    """A line of a JVM's log that is cut off or not what Kafka writes. The reader leaves it out and reads on."""


class DecodeError(AssignorFault, ValueError):
    """Bytes that cannot be read. `what` is the structure, `offset` the byte at which reading it failed.

    `member_id`: whose subscription they are; None for other bytes, and where the reader was not told.
    """

    def __init__(self, what: str, reason: str, offset: int, member_id: str | None = None) -> None:
        super().__init__(f"{what}: {reason} at byte {offset}")
        self.what = what
        self.reason = reason
        self.offset = offset
        self.member_id = member_id


class KafkaError(AssignorFault):
    """What Kafka's leader would throw. `kafka_name`: Java's simple class name; `__cause__` stands for `getCause()`.

    `message`: Kafka's own, to the letter where Kafka has one, because people search for it. `hint`: what this project
    adds, such as which member it is about or what to do. `str()` has both.
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
        """`"SimpleName: message"`, the form of `output.error` in rebalance/1: what Kafka says, without the hint."""
        return f"{self.kafka_name}: {self.message}"

    def with_hint(self) -> str:
        """`as_recorded` with the hint, for people."""
        return f"{self.kafka_name}: {self}"


class StreamsError(KafkaError):
    """A rebalance that cannot continue: an internal topic is not as it must be, or an assignor broke a rule."""

    kafka_name = "StreamsException"


class TopologyError(KafkaError):
    """A topology that Kafka's builder refuses, or whose topics do not fit together."""

    kafka_name = "TopologyException"


class TaskAssignmentError(KafkaError):
    """The leader answers it with an ASSIGNMENT_ERROR assignment; it does not leave the pipeline."""

    kafka_name = "TaskAssignmentException"


class MissingSourceTopicError(KafkaError):
    """The leader answers it with an INCOMPLETE_SOURCE_TOPIC_METADATA assignment; it does not leave the pipeline."""

    kafka_name = "MissingSourceTopicException"


class ConfigError(KafkaError):
    """A member's config that its leader cannot use, such as an endpoint that is not host:port."""

    kafka_name = "ConfigException"


class IllegalStateError(KafkaError):
    """Members, tasks or lags that contradict each other."""

    kafka_name = "IllegalStateException"


class UnsupportedOperationError(KafkaError):
    """A question that was not prepared for, such as for lags that nobody asked to have computed."""

    kafka_name = "UnsupportedOperationException"


class IllegalArgumentError(KafkaError):
    """A value that Kafka's own class refuses to hold."""

    kafka_name = "IllegalArgumentException"


class NumberFormatError(IllegalArgumentError):
    """A port of an endpoint that does not fit an int."""

    kafka_name = "NumberFormatException"


class NullPointerError(KafkaError):
    """What Kafka's leader stumbles over. The message is the one that Java makes of its line of code."""

    kafka_name = "NullPointerException"


class UncheckedError(KafkaError):
    """What Kafka throws as a plain RuntimeException, because it should never happen."""

    kafka_name = "RuntimeException"


class BrokersRefusal(KafkaError):
    """The cause of a StreamsError: what the brokers answered to the leader's call. Its class and text are theirs, as
    `answer`, `"SimpleName: message"`, has them.
    """

    def __init__(self, answer: str) -> None:
        name, colon, message = answer.partition(": ")
        super().__init__(message if colon else answer)
        if colon:
            self.kafka_name = name


class Unavailable(AssignorFault):
    """What the work needs is not there, so nobody could be asked: no broker, coordinator or schema registry answers, a
    port or a database is taken, Spark does not start. Later it may be. Each package has classes of its own below this.
    """


class RebalanceNotPlaced(AssignorFault):
    """A rebalance of a forecast ended without a placement; the text says how."""


def _as_it_was(
    kind: type[AssignorFault], args: tuple[object, ...], fields: Mapping[str, object], cause: AssignorFault | None
) -> AssignorFault:
    """Without `__init__`, whose arguments differ from class to class and from what the fault keeps."""
    fault = kind.__new__(kind, *args)
    fault.__dict__.update(fields)
    if cause is not None:
        fault.__cause__ = cause
    return fault
