"""Users' own assignors, with names of the form `module:Class`. An assignor runs only if the settings of the service
list it.
"""

from collections.abc import Iterable
from functools import lru_cache

from assignor.errors import InputError
from assignor.names.user_modules import named_object
from assignor.recording import is_class_path
from assignor.task_assignors.base import TaskAssignor
from assignor.task_assignors.registry import task_assignor_from
from coordinator_api.errors import AssignorNotListed
from coordinator_api.settings import SettingsError


class AllowedAssignors:
    """The users' own assignors that groups may name. Kafka's own assignors are always allowed."""

    def __init__(self, class_paths: Iterable[str]) -> None:
        """Loads each assignor at once, so that the service refuses to start with a wrong setting. Raises
        SettingsError.
        """
        self._loaded = {path: _load(path) for path in class_paths}

    @property
    def class_paths(self) -> tuple[str, ...]:
        """The arguments for making an equal `AllowedAssignors` in another process."""
        return tuple(self._loaded)

    def check(self, assignor: str) -> None:
        """Raises AssignorNotListed if the settings do not list the class."""
        if is_class_path(assignor) and assignor not in self._loaded:
            raise AssignorNotListed(
                f"assignor: {assignor[:100]} is not listed in this service's setting task.assignor.classes", "assignor"
            )

    def load(self, assignor: str) -> TaskAssignor | None:
        """Returns the user's own assignor. Returns None for an assignor of Kafka, which is part of the pipeline."""
        if not is_class_path(assignor):
            return None
        if assignor not in self._loaded:
            raise InputError(f"{assignor} is no longer listed in the setting task.assignor.classes", "assignor")
        return self._loaded[assignor]


@lru_cache(maxsize=1)
def allowed_here(class_paths: tuple[str, ...]) -> AllowedAssignors:
    """Returns the allowed assignors of this worker process. The process loads each assignor once."""
    return AllowedAssignors(class_paths)


def _load(path: str) -> TaskAssignor:
    if not is_class_path(path):
        raise SettingsError(f"task.assignor.classes: {path!r} is not of the form module:Class")
    try:
        return task_assignor_from(named_object(path, repr(path)), path, path)
    except InputError as error:
        raise SettingsError(f"task.assignor.classes: {error}") from error
