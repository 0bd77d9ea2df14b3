"""Loads and calls a user's own measures of a sweep. A measure is a function with the name `module:function`. A measure
adds a column to the results. A measure function returns a number. A measure function gets the input of a forecast's
last rebalance, and the active tasks that this rebalance placed on each process.

    def busiest_thread(application_state: ApplicationState, active: Mapping[ProcessId, frozenset[TaskId]]) -> float

The module of a measure may be in the directory in which the command was started.
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from assignor.assignment import ApplicationState
from assignor.errors import InputError
from assignor.names.user_modules import named_object
from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.types import ProcessId, TaskId

MEASURE_OPTION = "--measure"

OwnMeasure = Callable[[ApplicationState, Mapping[ProcessId, frozenset[TaskId]]], float]


@dataclass(frozen=True, slots=True)
class OwnMeasures:
    """The user's own measures. `names`: the names of the functions in the form module:function. `directory`: the
    directory in which the command was started. Worker processes receive this path together with their work.
    """

    names: tuple[str, ...] = ()
    directory: str = "."

    def check(self) -> None:
        """Loads all measures in this process, so errors appear before the work begins. Raises InputError if a function
        cannot be loaded.
        """
        if len(set(self.names)) < len(self.names):
            raise InputError("names a function twice", MEASURE_OPTION)
        for name in self.names:
            self._function(name)

    def __call__(self, problem: PlacementProblem, placement: Placement) -> tuple[float, ...]:
        """Returns the values of the measures in the order of `names`. Raises InputError if a function raises an
        exception, or does not return a number.
        """
        active = {process: client.active for process, client in placement.clients.items()}
        return tuple([self._measured(name, ApplicationState(problem), active) for name in self.names])

    def _measured(self, name: str, state: ApplicationState, active: Mapping[ProcessId, frozenset[TaskId]]) -> float:
        try:
            found = self._function(name)(state, active)
        except Exception as error:  # a function of the user may raise any exception
            raise InputError(f"{name} raised {type(error).__name__}: {error}", MEASURE_OPTION) from error
        if isinstance(found, bool) or not isinstance(found, (int, float)):
            raise InputError(f"{name} returned {type(found).__name__} instead of a number", MEASURE_OPTION)
        return float(found)

    def _function(self, name: str) -> OwnMeasure:
        if self.directory not in sys.path and os.path.isdir(self.directory):
            sys.path.insert(0, self.directory)
        found = named_object(name, f"{MEASURE_OPTION}: {name!r}")
        if not callable(found):
            raise InputError(f"{name!r} is not a function", MEASURE_OPTION)
        return found
