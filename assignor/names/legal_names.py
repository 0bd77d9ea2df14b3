"""Which names may become part of a topic, a directory or a metric: Kafka's own rule, in one place.

Application ids, groups, topics, stores and the names that the DSL takes have the same characters in Kafka. So no such
name can leave the directory that it is put into, or break a line in which it is printed. Source:
`org.apache.kafka.common.internals.Topic.validate`, Kafka Streams' `Named.validate`.
"""

from __future__ import annotations

import re

from assignor.errors import InputError

LONGEST_NAME = 249
NAME_PATTERN = rf"^(?!\.{{1,2}}$)[A-Za-z0-9._-]{{1,{LONGEST_NAME}}}$"
LEGAL_NAME = re.compile(NAME_PATTERN)
"""For `fullmatch`."""

NAME_RULE = f"1 to {LONGEST_NAME} letters, digits, dots, underscores and hyphens, and not '.' or '..'"

_LONGEST_SHOWN = 80


def is_legal_name(name: object) -> bool:
    """Whether Kafka takes it as the name of a topic."""
    return isinstance(name, str) and LEGAL_NAME.fullmatch(name) is not None


def checked_name(name: str, what: str, where: str) -> str:
    """The name itself. `what`: as in "the name of a topic". Raises InputError at `where`."""
    if is_legal_name(name):
        return name
    raise InputError(f"{shown_name(name)} is not {what}: use {NAME_RULE}", where)


def shown_name(name: str) -> str:
    """For messages, whatever is in it: in quotes, with escapes, and not longer than a line."""
    shown = ascii(name[:_LONGEST_SHOWN])
    return shown if len(name) <= _LONGEST_SHOWN else f"{shown}... ({len(name)} characters)"
