"""A bug that can be switched on: production code in which one thing is done wrong, for as long as a block runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.simulation.rule_names import ANSWERED_SURVIVES as ANSWERED_SURVIVES
from tests.simulation.rule_names import BECOMES_STABLE as BECOMES_STABLE
from tests.simulation.rule_names import EXACT_COUNTS as EXACT_COUNTS
from tests.simulation.rule_names import FITS_TOGETHER as FITS_TOGETHER
from tests.simulation.rule_names import GENERATIONS_RISE as GENERATIONS_RISE
from tests.simulation.rule_names import GIVEN_UP_FIRST as GIVEN_UP_FIRST
from tests.simulation.rule_names import HEARD_STAY as HEARD_STAY
from tests.simulation.rule_names import LEVERS_STAY as LEVERS_STAY
from tests.simulation.rule_names import LIVING_STAY as LIVING_STAY
from tests.simulation.rule_names import NO_TASK_ALONE as NO_TASK_ALONE
from tests.simulation.rule_names import NOT_BOTH as NOT_BOTH
from tests.simulation.rule_names import ONE_MEMBER as ONE_MEMBER
from tests.simulation.rule_names import ONE_OWNER as ONE_OWNER
from tests.simulation.rule_names import OWNER_ANSWERS as OWNER_ANSWERS
from tests.simulation.rule_names import OWNER_WRITES as OWNER_WRITES
from tests.simulation.rule_names import SERVED_AGAIN as SERVED_AGAIN


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
    """`line`: what goes wrong, for a person. `breaks`: the rule that is broken by it at last."""

    name: str
    line: str
    breaks: str
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


def bug(name: str, line: str, breaks: str, *patches: tuple[Any, str, Callable[[Any], Any]]) -> Bug:
    return Bug(name, line, breaks, tuple(Patch(*patch) for patch in patches))


def always(value: object) -> Callable[[Any], Any]:
    """A function that does nothing but answer this."""
    return lambda _: lambda *args, **more: value
