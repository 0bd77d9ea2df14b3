"""Short names of processes and members for text that people read. Short names are for people only: data always contain
the full ids.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from assignor.types import ProcessId

_DIGITS = 8
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_APPENDED_UUID = re.compile(rf"-{_UUID}\Z")
_INNER_UUID = re.compile(_UUID)


_THREAD = re.compile(r"-StreamThread-(\d+)(?:-consumer)?\Z")
_LONGEST_NAME = 24


def instance_name(client_id: str) -> str | None:
    """Returns the part of a thread's client id that all threads of the instance share. Returns None for a client id
    that Kafka Streams did not create.
    """
    match = _THREAD.search(client_id)
    return client_id[: match.start()] if match is not None and match.start() else None


class ShortNames:
    """Short names of processes: the first eight digits of the process id. If several of `processes` have the same first
    eight digits, their short names are the whole ids.
    """

    def __init__(self, processes: Iterable[ProcessId | None]) -> None:
        known = {process for process in processes if process is not None}
        count = Counter(str(process)[:_DIGITS] for process in known)
        self._short = {process: str(process)[:_DIGITS] for process in known if count[str(process)[:_DIGITS]] == 1}

    def short(self, process: ProcessId | None) -> str:
        return "nobody" if process is None else self._short.get(process, str(process))

    def thread(self, process: ProcessId | None, member: str | None) -> str:
        """Returns the name of a thread of the process. `member`: the instance id, client id or member id of the thread.
        If `member` is None, the name is an empty text.
        """
        return called(member)


class InstanceNames(ShortNames):
    """Short names of processes, made from client ids. The short name of a process is the common beginning of its
    threads' client ids. The beginning is used only if it is short and no other process has the same beginning. If the
    config `client.id` is not set, the client ids begin with the whole process id, so their common beginning is too
    long. `names`: for each process, the common beginning of its client ids, or None if they have no common beginning.
    """

    def __init__(self, names: Mapping[ProcessId, str | None]) -> None:
        super().__init__(names)
        self._beginnings = names
        count = Counter(names.values())
        self._names = {
            process: name for process, name in names.items() if name and count[name] == 1 and len(name) <= _LONGEST_NAME
        }

    def short(self, process: ProcessId | None) -> str:
        name = None if process is None else self._names.get(process)
        return super().short(process) if name is None else name

    def thread(self, process: ProcessId | None, member: str | None) -> str:
        """Returns a name such as `thread 2` if the client ids of the process's threads differ only in the thread
        number. If the client ids differ in another way, returns the short name of the member.
        """
        beginning = None if process is None else self._beginnings.get(process)
        shown = called(member)
        number = _THREAD.search(shown)
        alike = beginning is not None and number is not None and shown[: number.start()] == beginning
        return f"thread {number[1]}" if alike and number else short_member(shown)


class FullNames(InstanceNames):
    """Full names. The full name of a process consists of its short name, if it has one, and its whole id. The full name
    of a thread is the unchanged id of its member.
    """

    def short(self, process: ProcessId | None) -> str:
        if process is None:
            return "nobody"
        name = self._names.get(process)
        return str(process) if name is None else f"{name} ({process})"

    def thread(self, process: ProcessId | None, member: str | None) -> str:
        return member or ""


def called(member: str | None) -> str:
    """Returns the member id without the UUID that the broker appended. Returns an empty text for None."""
    return "" if member is None else _APPENDED_UUID.sub("", member)


def short_member(member: str | None) -> str:
    """Returns a short form of the member id, without the UUID that the broker appended and without Kafka Streams'
    `-consumer`. Any other UUID in the member id is cut to its first eight digits. Returns an empty text for None.
    """
    return _INNER_UUID.sub(lambda found: found[0][:_DIGITS], called(member).removesuffix("-consumer"))


def short_members(member_ids: Iterable[str]) -> dict[str, str]:
    """Returns the `short_member` of each member, for tables. If several members would have the same name, their names
    are the whole ids.
    """
    short = {member: short_member(member) for member in member_ids}
    count = Counter(short.values())
    return {member: name if name and count[name] == 1 else member for member, name in short.items()}


def shortened(name: str, width: int) -> str:
    """Shortens a name to at most `width` characters, and keeps its beginning and its end:
    `orders-enri…StreamThread-1`.
    """
    if len(name) <= width:
        return name
    end = (width - 1) // 2
    return f"{name[: width - 1 - end]}…{name[len(name) - end :]}"
