"""The public names of a package, as directives for autodoc, under the module that each is written in."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from importlib import import_module
from types import GenericAlias
from typing import get_origin

from docs._ext.markdown import fenced

_OPTIONS = "   :members:\n   :undoc-members:\n   :member-order: bysource\n"


def public_names(package: str) -> str:
    """Autodoc's directives for all names of `package.__all__`, grouped by the module that holds them."""
    module = import_module(package)
    homes: dict[str, str] = getattr(module, "_HOME_OF", {})
    by_home: dict[str, list[str]] = defaultdict(list)
    for name in sorted(module.__all__):
        found = getattr(module, name)
        home = homes.get(name) or found.__module__
        by_home[home].append(_directive(package, name, found, home))
    return "\n".join(
        f"## {home}\n\n{fenced(chr(10).join(directives), '{eval-rst}')}" for home, directives in sorted(by_home.items())
    )


def _directive(package: str, name: str, found: object, home: str) -> str:
    options = (
        "" if home.partition(".")[0] == package.partition(".")[0] else "   :no-index:\n"
    )  # it is indexed on its own package's page
    if isinstance(found, type) and not isinstance(found, GenericAlias):
        return f".. autoclass:: {package}.{name}\n{options}{'' if issubclass(found, tuple) else _OPTIONS}"
    if inspect.isfunction(found):
        return f".. autofunction:: {package}.{name}\n{options}"
    if get_origin(found) is not None:  # the name of a type, which has no docstring of its own
        return f".. py:data:: {package}.{name}\n{options}\n   The type ``{_short(found)}``.\n"
    return f".. autodata:: {package}.{name}\n{options}   :no-value:\n"


def _short(alias: object) -> str:
    return re.sub(r"(?:\w+\.)+(?=\w)", "", str(alias))
