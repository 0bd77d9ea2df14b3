"""Which task assignor and configs a document names.

Source: `internal.task.assignor.class` (legacy assignors) and `task.assignor.class` (KIP-924) of `StreamsConfig`.
"""

from __future__ import annotations

import re

from assignor.configs import AssignmentConfigs
from assignor.errors import InputError
from assignor.recording.fields import as_text
from assignor.task_assignors.registry import BUILT_IN_ASSIGNORS

KNOWN_ASSIGNORS = tuple(BUILT_IN_ASSIGNORS)

_CLASS_PATH = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*\Z")


def is_class_path(name: str) -> bool:
    """Whether `name` is a user's own class, written `module:Class`."""
    return _CLASS_PATH.match(name) is not None


def as_assignor(value: object, where: str) -> str:
    name = as_text(value, where)
    if name not in KNOWN_ASSIGNORS and not is_class_path(name):
        raise InputError(
            f"must be one of {', '.join(KNOWN_ASSIGNORS)}, or your own class as module:Class, not {name[:80]!r}", where
        )
    return name


def as_configs(value: object, where: str) -> AssignmentConfigs:
    """Raises InputError."""
    if not isinstance(value, dict):
        raise InputError("must be an object of Kafka's dotted config names", where)
    try:
        return AssignmentConfigs.from_dotted(value, where)
    except InputError:
        raise
    except ValueError as error:  # text that int() refuses, though it looks like a number
        raise InputError(str(error), where) from None
