"""Values that a test knows to be there."""

from typing import TypeVar

T = TypeVar("T")


def known(value: T | None) -> T:
    """Returns the value; fails if the value is None."""
    assert value is not None
    return value
