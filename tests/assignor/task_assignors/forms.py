"""The two forms of the modules that move tasks: the one that imports find, which is compiled where setup.py could, and
what Python makes of the source, under the same names but apart from it.
"""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import ModuleType

from tests.checkout import ROOT

_PACKAGE = "assignor.task_assignors"
MOVEMENT = ("working_state", "constrained_priority_set", "task_movement")
"""Each after those that it imports."""
_THEIR_USER = "high_availability"


@lru_cache(maxsize=1)
def pure_forms() -> dict[str, ModuleType]:
    """By name, with `high_availability` on top of them."""
    with _forgotten((*MOVEMENT, _THEIR_USER)):
        forms = {name: _from_source(name) for name in MOVEMENT}
        forms[_THEIR_USER] = importlib.import_module(f"{_PACKAGE}.{_THEIR_USER}")
    return forms


def form(name: str, *, pure: bool) -> ModuleType:
    return pure_forms()[name] if pure else importlib.import_module(f"{_PACKAGE}.{name}")


@lru_cache(maxsize=1)
def pure_order() -> ModuleType:
    """`assignor.java.order`, made of its source."""
    loader = SourceFileLoader("order_from_source", str(ROOT / "assignor/java/order.py"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def _from_source(name: str) -> ModuleType:
    whole = f"{_PACKAGE}.{name}"
    loader = SourceFileLoader(whole, str(ROOT / f"{whole.replace('.', '/')}.py"))
    spec = spec_from_loader(whole, loader)
    assert spec is not None
    module = sys.modules[whole] = module_from_spec(spec)
    loader.exec_module(module)
    return module


@contextmanager
def _forgotten(names: tuple[str, ...]) -> Iterator[None]:
    """What has been imported comes back afterwards, also as attributes of the package."""
    package = importlib.import_module(_PACKAGE)
    known = {name: importlib.import_module(f"{_PACKAGE}.{name}") for name in names}
    for name in names:
        del sys.modules[f"{_PACKAGE}.{name}"]
    try:
        yield
    finally:
        for name, module in known.items():
            sys.modules[f"{_PACKAGE}.{name}"] = module
            setattr(package, name, module)
