"""Names of a package that are loaded when they are first used (PEP 562): importing the package alone costs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module


class LazyNames:
    """The names of one package; `load` and `listed` are its `__getattr__` and `__dir__`."""

    def __init__(self, modules: Mapping[str, Iterable[str]], globals_: dict[str, object]) -> None:
        """`modules`: names by the full name of their module. `globals_`: the package's, where a loaded name is kept."""
        self.home_of = {name: module for module, names in modules.items() for name in names}
        self._globals = globals_

    def names(self) -> list[str]:
        """In the order of the table."""
        return [*self.home_of]

    def load(self, name: str) -> object:
        """Raises AttributeError for a name that is not in the table, as Python itself would."""
        home = self.home_of.get(name)
        if home is None:
            raise AttributeError(f"module {self._globals['__name__']!r} has no attribute {name!r}")
        found: object = getattr(import_module(home), name)
        self._globals[name] = found  # the next use does not come here
        return found

    def listed(self) -> list[str]:
        """For `dir`: what is there already, and what can be loaded."""
        return sorted({*self._globals, *self.home_of})
