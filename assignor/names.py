"""Short names of processes and members, for texts that people read; data always carry the full ids."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from assignor.types import ProcessId

_DIGITS = 8
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_APPENDED_UUID = re.compile(rf"-{_UUID}\Z")
_INNER_UUID = re.compile(_UUID)


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


def short_members(member_ids: Iterable[str]) -> dict[str, str]:
    """For tables: the member id without the UUID that the broker appended and without Kafka Streams' `-consumer`, and
    with the first eight digits of any other UUID in it. A name that two members would share stays whole for both.
    """
    short = {
        member: _INNER_UUID.sub(lambda found: found[0][:_DIGITS], called(member).removesuffix("-consumer"))
        for member in member_ids
    }
    count = Counter(short.values())
    return {member: name if name and count[name] == 1 else member for member, name in short.items()}
