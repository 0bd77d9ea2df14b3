"""Task assignors by the names that configs and recordings use.

Kafka's own names and this project's MinimalMovementTaskAssignor are built in; `module:Class` is a user's own class. An
assignor is imported when it is asked for. Source: `internal.task.assignor.class` and `task.assignor.class` of
`StreamsConfig`.
"""

from __future__ import annotations

import difflib
from importlib import import_module

from assignor.errors import InputError, NotBuiltYet
from assignor.task_assignors.base import TaskAssignor
from assignor.task_assignors.placement_validation import validate_placement

__all__ = ["BUILT_IN_ASSIGNORS", "PUBLIC_STICKY_ASSIGNOR", "task_assignor_named", "validate_placement"]

BUILT_IN_ASSIGNORS = {
    "HighAvailabilityTaskAssignor": "assignor.task_assignors.high_availability:HighAvailabilityTaskAssignor",
    "LegacyStickyTaskAssignor": "assignor.task_assignors.sticky:LegacyStickyTaskAssignor",
    "FallbackPriorTaskAssignor": "assignor.task_assignors.sticky:FallbackPriorTaskAssignor",
    "MinimalMovementTaskAssignor": "assignor.task_assignors.minimal.movement:MinimalMovementTaskAssignor",
}
"""Name to `module:Class`."""

PUBLIC_STICKY_ASSIGNOR = "StickyTaskAssignor"


def task_assignor_named(name: str) -> TaskAssignor:
    """A new assignor. `name`: one of BUILT_IN_ASSIGNORS, or `module:Class` of a class that takes no arguments.

    Importing a user's module runs its code: never pass a name from somebody who may not run code here. Raises
    InputError with what is wrong with the name or the class, NotBuiltYet for the public StickyTaskAssignor.
    """
    if name == PUBLIC_STICKY_ASSIGNOR:
        raise NotBuiltYet(
            "the public StickyTaskAssignor (KIP-924) is not built yet; "
            "LegacyStickyTaskAssignor is Kafka's sticky assignor before 3.8",
            "assignor",
        )
    path = BUILT_IN_ASSIGNORS.get(name, name)
    module_name, colon, class_name = path.partition(":")
    if not colon:
        nearest = difflib.get_close_matches(name, (*BUILT_IN_ASSIGNORS, PUBLIC_STICKY_ASSIGNOR), n=1, cutoff=0.0)[0]
        raise InputError(
            f"unknown task assignor {name!r}; did you mean {nearest!r}? Your own class is named as module:Class",
            "assignor",
        )
    return _instance_of(_load(module_name, class_name, path), path)


def _load(module_name: str, class_name: str, path: str) -> object:
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise InputError(f"{path!r}: there is no module {error.name!r} to import", "assignor") from error
        raise InputError(f"{path!r}: importing {module_name!r} failed: {error}", "assignor") from error
    except Exception as error:  # a user's module can raise anything
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{path!r}: importing {module_name!r} failed: {reason}", "assignor") from error
    if not class_name or not hasattr(module, class_name):
        raise InputError(f"{path!r}: module {module_name!r} has no {class_name!r}", "assignor")
    found: object = getattr(module, class_name)
    return found


def _instance_of(assignor_class: object, path: str) -> TaskAssignor:
    if not isinstance(assignor_class, type):
        raise InputError(f"{path!r} is not a class", "assignor")
    if not callable(getattr(assignor_class, "assign", None)):
        raise InputError(f"{path!r} has no method assign(problem, log)", "assignor")
    try:
        instance: TaskAssignor = assignor_class()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{path!r} cannot be made without arguments: {reason}", "assignor") from error
    if not isinstance(getattr(instance, "name", None), str):
        raise InputError(f"{path!r} has no text attribute name", "assignor")
    return instance
