"""Loads the names of a package when they are first used (PEP 562), so that the import of the package is cheap."""

from collections.abc import Iterable, Mapping
from importlib import import_module


class LazyNames:
    """The names of one package. `load` and `listed` serve as the package's `__getattr__` and `__dir__`."""

    def __init__(self, modules: Mapping[str, Iterable[str]], globals_: dict[str, object]) -> None:
        """`modules`: full module name to the names that it defines. `globals_`: the package's globals, to which loaded
        names are added.
        """
        self.home_of = {name: module for module, names in modules.items() for name in names}
        self._globals = globals_

    def names(self) -> list[str]:
        """All names, in the order of `modules`."""
        return [*self.home_of]

    def load(self, name: str) -> object:
        """Loads a name. Raises AttributeError for a name that is not in `modules`, with Python's own message."""
        home = self.home_of.get(name)
        if home is None:
            raise AttributeError(f"module {self._globals['__name__']!r} has no attribute {name!r}")
        found: object = getattr(import_module(home), name)
        self._globals[name] = found  # Python finds the name there at the next use
        return found

    def listed(self) -> list[str]:
        """All names for `dir`: the loaded ones, and those that can be loaded."""
        return sorted({*self._globals, *self.home_of})
