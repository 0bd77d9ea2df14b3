"""How many cases of a test run where the others do: those that Hypothesis makes up, and those of a long list."""

from collections.abc import Iterable
from typing import Any

import hypothesis
import pytest


def share(of_profile: float) -> hypothesis.settings:
    """A decorator: this share of the examples of the profile in use, and at least one."""
    profile = hypothesis.settings()
    return hypothesis.settings(max_examples=max(1, round(profile.max_examples * of_profile)))


def every_other_long(cases: Iterable[Any]) -> list[Any]:
    """For `parametrize`: every second case is left to `make test-all`."""
    return [pytest.param(case, marks=pytest.mark.long) if at % 2 else case for at, case in enumerate(cases)]
