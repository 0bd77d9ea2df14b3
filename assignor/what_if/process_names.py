"""How people call a process: by its id or the name of one of its members, or by how one of these begins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

from assignor.errors import InputError
from assignor.types import ProcessId
from assignor.what_if.changes import EVERY_PROCESS

Value = TypeVar("Value")

_CANDIDATES_SHOWN = 8
_THREAD_SUFFIX = re.compile(r"-StreamThread-\d+-consumer\Z")


def instance_name(client_id: str) -> str | None:
    """What the client ids of an instance's threads have in common, None for one that Kafka Streams did not make."""
    match = _THREAD_SUFFIX.search(client_id)
    return client_id[: match.start()] if match is not None and match.start() else None


def process_called(name: str, names: Mapping[ProcessId, Iterable[str]], where: str) -> ProcessId:
    """Raises InputError with the candidates when no process or several are called so."""
    known = {process: (str(process), *called) for process, called in names.items()}
    begins = {process for process, called in known.items() if any(each.startswith(name) for each in called)}
    begins |= {process for process in known if str(process).startswith(name.lower())}
    whole = {process for process in begins if name in known[process] or name.lower() == str(process)}
    found = whole or begins
    if name and len(found) == 1:
        return found.pop()
    several = bool(name and found)
    listed = _listed(found if several else known.keys(), known)
    if several:
        raise InputError(f"{name!r} is the beginning of more than one instance: {listed}", where)
    raise InputError(f"no instance is called {name!r}; there are {listed}", where)


def _listed(processes: Iterable[ProcessId], known: Mapping[ProcessId, tuple[str, ...]]) -> str:
    first_names = {process: next((each for each in known[process][1:] if each), "no name") for process in processes}
    texts = [f"{process} ({name})" for process, name in sorted(first_names.items(), key=lambda each: each[::-1])]
    more = len(texts) - _CANDIDATES_SHOWN
    return ", ".join(texts[:_CANDIDATES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def by_process(
    asked: Mapping[str, Value], names: Mapping[ProcessId, Iterable[str]], where: str
) -> dict[ProcessId, Value]:
    """What is asked of all and of some processes, by process; what is asked of one goes before what is asked of all.

    Raises InputError also when a process is called by two names.
    """
    found: dict[ProcessId, Value] = {}
    if EVERY_PROCESS in asked:
        found = dict.fromkeys(names, asked[EVERY_PROCESS])
    called: dict[ProcessId, str] = {}
    for name, value in asked.items():
        if name != EVERY_PROCESS:
            process = process_called(name, names, where)
            if process in called:
                raise InputError(f"{called[process]!r} and {name!r} are the same instance {process}", where)
            called[process] = name
            found[process] = value
    return found
