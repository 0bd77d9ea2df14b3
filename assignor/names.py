"""Short names of processes and members, for texts that people read; data always carry the full ids."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from assignor.types import ProcessId

_DIGITS = 8
_APPENDED_UUID = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")


class ShortNames:
    """A process is shortened to the first eight digits of its id where these are unique among `processes`."""

    def __init__(self, processes: Iterable[ProcessId | None]) -> None:
        known = {process for process in processes if process is not None}
        count = Counter(str(process)[:_DIGITS] for process in known)
        self._short = {process: str(process)[:_DIGITS] for process in known if count[str(process)[:_DIGITS]] == 1}

    def short(self, process: ProcessId | None) -> str:
        return "nobody" if process is None else self._short.get(process, str(process))


def called(member: str | None) -> str:
    """The member id without the UUID that the broker appended; empty for None."""
    return "" if member is None else _APPENDED_UUID.sub("", member)
