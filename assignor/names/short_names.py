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
_WORKER_THREAD = re.compile(r"(.+-p[0-9]+)-t[0-9]+", re.DOTALL)


def instance_name(client_id: str) -> str | None:
    """Returns the part of a thread's client id that all threads of the instance share. Returns None for a client id
    that Kafka Streams did not create.
    """
    match = _THREAD.search(client_id)
    return client_id[: match.start()] if match is not None and match.start() else None


def client_of_instance(client_id: str) -> str:
    """Returns the client id of a thread without the number of the thread, such as `words-1` of
    `words-1-StreamThread-2`, and `words-p0` of `words-p0-t1`, as `assignor workers run` names threads. Returns any
    other client id unchanged.
    """
    worker = _WORKER_THREAD.fullmatch(client_id)
    return worker[1] if worker is not None else instance_name(client_id) or client_id


def client_id_of(member_id: str, client_id: str | None) -> str:
    """Returns the client id of a member. If the leader did not receive it, returns the beginning of the member id that
    Kafka Streams made of the client id; empty if the member id has no such beginning.
    """
    if client_id:
        return client_id
    beginning = called(member_id)
    return beginning if instance_name(beginning) else ""


def client_of_threads(client_ids: Iterable[str]) -> str | None:
    """Returns the client id of the instance with these threads; None if the client ids of the threads differ."""
    names = {client_of_instance(each) for each in client_ids}
    return names.pop() if len(names) == 1 else None


def short_process_ids(process_ids: Iterable[str]) -> dict[str, str]:
    """Returns the first eight digits of each process id. If several process ids begin with the same eight digits, or if
    a process id is not a UUID, its short form is the whole process id.
    """
    known = set(process_ids)
    count = Counter(process[:_DIGITS] for process in known)
    return {
        process: process[:_DIGITS] if count[process[:_DIGITS]] == 1 and _INNER_UUID.fullmatch(process) else process
        for process in known
    }


def instance_names(clients: Mapping[str, str | None]) -> dict[str, str]:
    """Returns the name of each instance, as people read it: its client id. If several instances have the same client
    id, the short process id stands behind it, as in `orders (0360fe55)`. If the client id is not known, or contains a
    UUID because the config `client.id` is not set, the name is the short process id alone. `clients`: the
    `client_of_threads` of each process id.
    """
    short, count = short_process_ids(clients), Counter(clients.values())
    names = {}
    for process, client in clients.items():
        if client is None or not _is_read(client):
            names[process] = short[process]
        else:
            names[process] = client if count[client] == 1 else f"{client} ({short[process]})"
    return names


def _is_read(client: str | None) -> bool:
    """Returns True if people would read the client id. If the config `client.id` is not set, the id contains a UUID."""
    return bool(client) and _INNER_UUID.search(client or "") is None


def names_of_threads(threads: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Returns the `instance_names` of the processes of threads. `threads`: the process id and the client id of each."""
    client_ids: dict[str, list[str]] = {}
    for process, client_id in threads:
        client_ids.setdefault(process, []).append(client_id or "")
    return instance_names({process: client_of_threads(each) for process, each in client_ids.items()})


def names_of_ended(instances: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Returns the names of instances that ended, by process id. The short process id always stands behind the client
    id, because an instance that took its place mostly has the same client id. As in `instance_names`, a client id that
    contains a UUID is left out. `instances`: the process id and the client id of each.
    """
    clients = dict(instances)
    short = short_process_ids(clients)
    return {
        process: f"{client} ({short[process]}, ended)" if _is_read(client) else f"{short[process]} (ended)"
        for process, client in clients.items()
    }


class ShortNames:
    """Short names of processes, made of the process ids alone: see `short_process_ids`."""

    def __init__(self, processes: Iterable[ProcessId | None]) -> None:
        known = {str(process): process for process in processes if process is not None}
        self._short = {known[text]: short for text, short in short_process_ids(known).items()}

    def short(self, process: ProcessId | None) -> str:
        return "nobody" if process is None else self._short.get(process, str(process))

    def thread(self, process: ProcessId | None, member: str | None) -> str:
        """Returns the name of a thread of the process. `member`: the instance id, client id or member id of the thread.
        If `member` is None, the name is an empty text.
        """
        return called(member)


class InstanceNames(ShortNames):
    """Names of instances: see `instance_names`. `names`: the `client_of_threads` of each process."""

    def __init__(self, names: Mapping[ProcessId, str | None]) -> None:
        super().__init__(names)
        self._beginnings = names
        by_text = instance_names({str(process): name for process, name in names.items()})
        self._names = {process: by_text[str(process)] for process in names}

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
    """Full names. The full name of a process consists of its client id, if people would read that, and its whole id.
    The full name of a thread is the unchanged id of its member.
    """

    def short(self, process: ProcessId | None) -> str:
        if process is None:
            return "nobody"
        client = self._beginnings.get(process)
        return f"{client} ({process})" if _is_read(client) else str(process)

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
