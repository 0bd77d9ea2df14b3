"""A bound on the requests of one kind at one time. One more is refused, so that the others are served."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from coordinator_api.errors import TooManyRequests


class Admission:
    """Counts on one event loop. `setting`: the dotted name of the bound, for the message."""

    def __init__(self, most: int, setting: str) -> None:
        self._most = most
        self._setting = setting
        self.count = 0

    @property
    def is_full(self) -> bool:
        return self.count >= self._most

    @contextmanager
    def one(self) -> Iterator[None]:
        """Counts one request while its block runs. Raises TooManyRequests when the bound is reached."""
        if self.is_full:
            raise TooManyRequests(
                f"{self.count} requests of this kind are under way already ({self._setting}): try again"
            )
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1
