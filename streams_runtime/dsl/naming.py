"""Generated names of nodes, stores and topics. One counter numbers all generated names, in the same order as in Kafka.

Even a node with a name from the user uses up a number of the counter. So the generated names of other nodes do not
change when the user names a node. Generated names become part of the names of internal topics. Generated names are the
same as in Kafka, so an application of Kafka Streams keeps its state when it moves to this runtime.
Source: `InternalStreamsBuilder.newProcessorName`, `newStoreName`, `NamedInternal`, `Named.validate`.
"""

import re

from assignor.errors import TopologyError
from assignor.names.legal_names import LONGEST_NAME, is_legal_name

REPARTITION_SUFFIX = "-repartition"

_STORE = "STATE-STORE-"
_GENERATED = re.compile(r"KSTREAM.*-[0-9]{10}\Z")


class Naming:
    """The counter that numbers the generated names of one `StreamsBuilder`."""

    def __init__(self) -> None:
        self._next = 0

    def processor(self, prefix: str) -> str:
        number = self._next
        self._next += 1
        return f"{prefix}{number:010d}"

    def store(self, prefix: str) -> str:
        return self.processor(prefix + _STORE)

    def name_or_generated(self, name: str | None, prefix: str, suffix: str = "") -> str:
        """Returns the given name with the suffix. If the parameter `name` is None, returns a generated name: the prefix
        with a number. The counter rises by one even if `name` is given. Raises TopologyError for an illegal name.
        """
        generated = self.processor(prefix)
        return generated if name is None else checked_name(checked_name(name) + suffix)


def checked_name(name: str) -> str:
    """Returns the name unchanged. Raises TopologyError for a name that a Kafka topic cannot have."""
    if not isinstance(name, str):
        raise TopologyError(f"Invalid topology: a name must be text, not {name!r}")
    if not name:
        raise TopologyError("Invalid topology: Name is illegal, it can't be empty")
    if name in (".", ".."):
        raise TopologyError('Invalid topology: Name cannot be "." or ".."')
    if len(name) > LONGEST_NAME:
        raise TopologyError(
            f"Invalid topology: Name is illegal, it can't be longer than {LONGEST_NAME} characters, name: {name}"
        )
    if not is_legal_name(name):
        raise TopologyError(
            f'Invalid topology: Name "{name}" is illegal, it contains a character other than '
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return name


def is_generated(name: str) -> bool:
    """Returns True if the name has the form of a generated name for a stream's node."""
    return _GENERATED.match(name) is not None
