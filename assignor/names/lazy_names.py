"""Loads the public names of a package when they are first used (PEP 562), so that the import of the package is cheap.

A package lists its public names once, as imports that Python does not execute:

```python
if TYPE_CHECKING:
    from package.module import Name as Name

_LAZY = LazyNames(globals())
__all__ = [*_LAZY.home_of]
__getattr__ = _LAZY.load
__dir__ = _LAZY.listed
```
"""

import ast
from importlib import import_module
from typing import Any


class LazyNames:
    """The public names of one package. `home_of`: the module of each name, in the order of the imports."""

    def __init__(self, globals_: dict[str, Any]) -> None:
        """`globals_`: the globals of the package, to which loaded names are added. The names come from the imports
        under `if TYPE_CHECKING:` in the source of the package. The module loader of the package reads the source, so
        that the source may be in a zip file.
        """
        module = ast.parse(globals_["__spec__"].loader.get_source(globals_["__name__"]))
        lines = [line for block in module.body if isinstance(block, ast.If) for line in block.body]
        imports = [line for line in lines if isinstance(line, ast.ImportFrom)]
        self.home_of = {alias.name: str(line.module) for line in imports for alias in line.names}
        self._globals = globals_

    def load(self, name: str) -> object:
        """Loads a public name. For a name that the package does not list, raises AttributeError with Python's own
        message.
        """
        home = self.home_of.get(name)
        if home is None:
            raise AttributeError(f"module {self._globals['__name__']!r} has no attribute {name!r}")
        found: object = getattr(import_module(home), name)
        self._globals[name] = found  # at the next use, Python finds the name in the globals
        return found

    def listed(self) -> list[str]:
        """Returns all names of the package for `dir`: the loaded names, and the names that can be loaded."""
        return sorted({*self._globals, *self.home_of})
