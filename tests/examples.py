"""How many cases Hypothesis makes up for a test whose cases cost more, or find less, than those of the others."""

from __future__ import annotations

import hypothesis


def share(of_profile: float) -> hypothesis.settings:
    """A decorator: this share of the examples of the profile in use, and at least one."""
    profile = hypothesis.settings()
    return hypothesis.settings(max_examples=max(1, round(profile.max_examples * of_profile)))
