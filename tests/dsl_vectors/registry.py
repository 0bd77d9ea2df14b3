"""Functions by the names that cases write: `["name", parameters...]`."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from tests.dsl_vectors.cases import NotKnown

Function = TypeVar("Function", bound=Callable[..., Any])


class Registry:
    """`what`: what kind of function it holds, for the name of one that is not known. `functions`: by name; each takes
    the written parameters first, then those of the call.
    """

    def __init__(self, what: str, functions: Mapping[str, Callable[..., Any]] | None = None) -> None:
        self._what = what
        self._by_name: dict[str, Callable[..., Any]] = dict(functions or {})

    def named(self, *names: str) -> Callable[[Function], Function]:
        """Register the decorated function. It takes the written parameters first, then those of the call."""

        def register(function: Function) -> Function:
            for name in names:
                self._by_name[name] = function
            return function

        return register

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def get(self, written: list[Any]) -> Callable[..., Any]:
        """The function with its parameters. Raises NotKnown."""
        name, *parameters = written
        if name not in self._by_name:
            raise NotKnown(f"{self._what} {name}")
        return partial(self._by_name[name], *parameters)
