"""Kafka's rule for names that become part of a topic, a directory or a metric.

In Kafka, application ids, groups, topics, stores and names in the DSL have the same legal characters. So a legal name
in a path cannot lead out of a directory. A legal name in a text cannot break the line.
Source: `org.apache.kafka.common.internals.Topic.validate`, Kafka Streams' `Named.validate`.
"""

import re

from assignor.errors import InputError

LONGEST_NAME = 249
NAME_PATTERN = rf"^(?!\.{{1,2}}$)[A-Za-z0-9._-]{{1,{LONGEST_NAME}}}$"
LEGAL_NAME = re.compile(NAME_PATTERN)
"""The pattern of a legal name, for use with `fullmatch`."""

NAME_RULE = f"1 to {LONGEST_NAME} letters, digits, dots, underscores and hyphens, and not '.' or '..'"

_LONGEST_SHOWN = 80


def is_legal_name(name: object) -> bool:
    """True if Kafka accepts the name as the name of a topic."""
    return isinstance(name, str) and LEGAL_NAME.fullmatch(name) is not None


def checked_name(name: str, what: str, where: str) -> str:
    """Returns `name`. Raises InputError if the name is not legal. `where`: the place of the name, for the error.
    `what`: a noun phrase such as "the name of a topic".
    """
    if is_legal_name(name):
        return name
    raise InputError(f"{shown_name(name)} is not {what}: use {NAME_RULE}", where)


def shown_name(name: str) -> str:
    """Returns the name as text for a message: in quotes, with escapes, and shortened to one line."""
    shown = ascii(name[:_LONGEST_SHOWN])
    return shown if len(name) <= _LONGEST_SHOWN else f"{shown}... ({len(name)} characters)"
