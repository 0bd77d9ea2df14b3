"""Generated names of nodes, stores and topics. One counter numbers all generated names, in the same order as in Kafka.

Even a node with a name from the user uses up a number of the counter. So the generated names of other nodes do not
change when the user names a node. Generated names become part of the names of internal topics. Generated names are the
same as in Kafka, so an application of Kafka Streams keeps its state when it moves to this runtime.
Source: `InternalStreamsBuilder.newProcessorName`, `newStoreName`, `NamedInternal`, `Named.validate`.
"""

import re

from assignor.errors import TopologyError
from assignor.names.legal_names import LONGEST_NAME, is_legal_name
from assignor.topology.definition import TopologyDefinition

REPARTITION_SUFFIX = "-repartition"

_STORE = "STATE-STORE-"
_GENERATED = re.compile(r"KSTREAM.*-[0-9]{10}\Z")


class Naming:
    """The counter that numbers the generated names of one `StreamsBuilder`."""

    def __init__(self) -> None:
        self._next = 0
        self._generated: set[str] = set()
        self._stores: list[str] = []

    def processor(self, prefix: str) -> str:
        number = self._next
        self._next += 1
        name = f"{prefix}{number:010d}"
        self._generated.add(name)
        return name

    def store(self, prefix: str) -> str:
        name = self.processor(prefix + _STORE)
        self._stores.append(name)
        return name

    def with_number_of(self, generated: str, prefix: str) -> str:
        """Returns a name with another prefix and the number of a generated name."""
        name = f"{prefix}{generated.rpartition('-')[2]}"
        self._generated.add(name)
        return name

    def without_names(self, definition: TopologyDefinition) -> tuple[str, ...]:
        """Returns the names of the stores and repartition topics that the user has not named. The name of a store or
        topic is generated if it begins with a generated name. As in Kafka, the result also has the store of a table
        that needs none. Source: `InternalTopologyBuilder.checkUnprovidedNames`. Differs from Kafka: the result also has
        the topics and the subscription store of a foreign-key join, and the repartition topic of a grouped table. It
        does not have a repartition topic that is called after a node that the user has named.
        """
        resources = (*definition.stores, *definition.global_stores, *definition.repartition_topics)
        found = (name for name in resources if name.startswith(tuple(self._generated)))
        return tuple(dict.fromkeys((*self._stores, *found)))

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
