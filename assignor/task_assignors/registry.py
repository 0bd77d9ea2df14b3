"""Finds task assignors by their names in configs and recordings.

The built-in assignors are Kafka's assignors, this project's MinimalMovementTaskAssignor, and the broker's assignor for
streams groups. Kafka calls the broker's assignor `sticky`. A name of the form `module:Class` stands for a user's own
class. A user's class either extends `assignor.assignment.CustomTaskAssignor`, or has a method `assign(problem, log)`
and a text attribute `name`. An assignor's module is imported when the assignor is first requested.
Source: `internal.task.assignor.class` and `task.assignor.class` of `StreamsConfig`.
"""

from importlib import import_module

from assignor.errors import InputError
from assignor.names.near_names import near_name
from assignor.names.user_modules import named_object
from assignor.task_assignors.base import TaskAssignor, validate_placement

__all__ = ["BUILT_IN_ASSIGNORS", "task_assignor_from", "task_assignor_named", "validate_placement"]

BUILT_IN_ASSIGNORS = {
    "HighAvailabilityTaskAssignor": "assignor.task_assignors.high_availability:HighAvailabilityTaskAssignor",
    "LegacyStickyTaskAssignor": "assignor.task_assignors.legacy_sticky:LegacyStickyTaskAssignor",
    "FallbackPriorTaskAssignor": "assignor.task_assignors.legacy_sticky:FallbackPriorTaskAssignor",
    "StickyTaskAssignor": "assignor.assignment.sticky:StickyTaskAssignor",
    "StreamsGroupStickyTaskAssignor": "assignor.task_assignors.streams_groups.adapter:StreamsGroupStickyTaskAssignor",
    "MinimalMovementTaskAssignor": "assignor.task_assignors.minimal.movement:MinimalMovementTaskAssignor",
}
"""The built-in assignors: the `module:Class` of each name."""


def task_assignor_named(name: str) -> TaskAssignor:
    """Returns a new assignor. `name`: one of BUILT_IN_ASSIGNORS, or `module:Class` for a class without constructor
    arguments.

    The import of a user's module runs the module's code. So the name must come from a caller that may run code in this
    process. Raises InputError if the name or the class is invalid.
    """
    path = BUILT_IN_ASSIGNORS.get(name, name)
    if path is not name:  # built-in classes need no checks, unlike the class of a user
        module_name, _, class_name = path.partition(":")
        return task_assignor_from(getattr(import_module(module_name), class_name), path, name)
    if ":" not in path:
        near = near_name(name, BUILT_IN_ASSIGNORS)
        hint = f"known are {', '.join(BUILT_IN_ASSIGNORS)};" if near is None else f"did you mean {near!r}?"
        raise InputError(f"unknown task assignor {name!r}; {hint} your own class is named as module:Class", "assignor")
    return task_assignor_from(named_object(path, f"assignor: {path!r}"), path, name)


def task_assignor_from(assignor_class: object, path: str, name: str) -> TaskAssignor:
    """Returns an instance of the class, as an assignor that the pipeline can run. `path`: the class as `module:Class`,
    for error messages. `name`: the assignor's name in configs. Raises InputError if the class is invalid.
    """
    instance = _instance_of(assignor_class, path)
    # no isinstance check: this file must not import `assignor.assignment`
    in_pipeline = getattr(instance, "in_pipeline", None)
    found: TaskAssignor = instance if in_pipeline is None else in_pipeline(name)  # type: ignore[assignment]
    if not isinstance(getattr(found, "name", None), str):
        raise InputError(f"{path!r} has no text attribute name", "assignor")
    return found


def _instance_of(assignor_class: object, path: str) -> object:
    if not isinstance(assignor_class, type):
        raise InputError(f"{path!r} is not a class", "assignor")
    if not callable(getattr(assignor_class, "assign", None)):
        raise InputError(f"{path!r} has no method assign(problem, log)", "assignor")
    try:
        instance: object = assignor_class()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{path!r} cannot be made without arguments: {reason}", "assignor") from error
    return instance
