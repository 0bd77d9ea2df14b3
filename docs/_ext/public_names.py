"""The public names of a package, as directives for autodoc, under the module that each is written in."""

from __future__ import annotations

import inspect
from collections import defaultdict
from importlib import import_module

from docs._ext.markdown import fenced

_OPTIONS = "   :members:\n   :undoc-members:\n   :member-order: bysource\n"


def public_names(package: str) -> str:
    """Autodoc's directives for all names of `package.__all__`, grouped by the module that holds them."""
    module = import_module(package)
    by_home: dict[str, list[str]] = defaultdict(list)
    for name in sorted(module.__all__):
        found = getattr(module, name)
        by_home[getattr(found, "__module__", package) or package].append(_directive(package, name, found))
    return "\n".join(
        f"## {home}\n\n{fenced(chr(10).join(directives), '{eval-rst}')}" for home, directives in sorted(by_home.items())
    )


def _directive(package: str, name: str, found: object) -> str:
    home = getattr(found, "__module__", package) or package
    options = "" if home.partition(".")[0] == package else "   :no-index:\n"  # it is indexed on its own package's page
    if inspect.isclass(found):
        return f".. autoclass:: {package}.{name}\n{options}{'' if issubclass(found, tuple) else _OPTIONS}"
    if inspect.isfunction(found):
        return f".. autofunction:: {package}.{name}\n{options}"
    return f".. autodata:: {package}.{name}\n{options}   :no-value:\n"
