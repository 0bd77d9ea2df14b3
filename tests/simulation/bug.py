"""A bug that can be switched on: production code in which one thing is done wrong, for as long as a block runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Patch:
    """`owner`: a class or a module of production code. `made_of`: the wrong attribute, made of the right one, which
    comes as it stands there (a property as a property, a class method as a class method).
    """

    owner: Any
    attribute: str
    made_of: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    patches: tuple[Patch, ...]

    @contextmanager
    def switched_on(self) -> Iterator[None]:
        """Of one bug at a time."""
        right = [(patch, vars(patch.owner)[patch.attribute]) for patch in self.patches]
        try:
            for patch, original in right:
                setattr(patch.owner, patch.attribute, patch.made_of(original))
            yield
        finally:
            for patch, original in right:
                setattr(patch.owner, patch.attribute, original)


def bug(name: str, *patches: tuple[Any, str, Callable[[Any], Any]]) -> Bug:
    return Bug(name, tuple(Patch(*patch) for patch in patches))


def always(value: object) -> Callable[[Any], Any]:
    """A function that does nothing but answer this."""
    return lambda _: lambda *args, **more: value
