"""Finds the processes that a user's changes name. Also makes labels for processes in texts and pictures. For new
processes, also makes ids and chooses racks.

If several processes are equally good, Kafka's assignors choose by process id. If all new ids were higher than the
recorded ids, some placements would be more likely than in a real group. For this reason, new ids are hashes. The new
ids are distributed like random ids, but are the same for the same input.
"""

import hashlib
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import islice

from assignor.errors import InputError
from assignor.names.short_names import InstanceNames, client_id_of, client_of_threads
from assignor.recording.fields import Value
from assignor.types import ProcessId
from rebalance_analysis.rerun import Rerun, RerunPlacement, RerunRebalance
from rebalance_analysis.what_if.changes import EVERY_PROCESS, AddedInstances

_CANDIDATES_SHOWN = 8


def process_called(name: str, names: Mapping[ProcessId, Iterable[str]], where: str) -> ProcessId:
    """Returns the process that a name identifies. If the name does not match exactly one process, raises InputError
    with the candidates.
    """
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
    """Returns, for each process, the value that the user wants to set. If the user gives one value for a process and
    another for all processes, the value for the process is used. Raises InputError if a name does not match exactly one
    process, or if two names match the same process.
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


def removed_processes(names: Iterable[str], known: Mapping[ProcessId, Iterable[str]]) -> frozenset[ProcessId]:
    """Returns the processes that are to be removed. Raises InputError if a name does not match exactly one process, or
    if no process would be left.
    """
    removed = frozenset(process_called(name, known, "remove") for name in names)
    if len(removed) == len(known):
        raise InputError("no instance would be left", "remove")
    return removed


def tags_by_process(
    asked: Mapping[str, Mapping[str, str]], names: Mapping[ProcessId, Iterable[str]]
) -> dict[ProcessId, Mapping[str, str]]:
    """Returns, for each process, the client tags to set. Raises InputError if a name does not match exactly one
    process.
    """
    everybody = asked.get(EVERY_PROCESS, {})
    return by_process({name: {**everybody, **tags} for name, tags in asked.items()}, names, "tags")


def new_instances(
    asked: Iterable[AddedInstances], seed: str, taken: Container[ProcessId], racks: Iterable[str | None]
) -> Iterator[tuple[AddedInstances, ProcessId, str | None]]:
    """Yields each new instance with its process id and rack. `racks`: the racks of the existing instances."""
    process_ids, new_racks = _new_process_ids(seed, taken), _new_racks(racks)
    for added in asked:
        for process in islice(process_ids, added.count):
            yield added, process, next(new_racks)


def process_labels(rebalances: Iterable[Rerun]) -> dict[ProcessId, str]:
    """Returns a label for every process of the rebalances. `InstanceNames` makes the labels."""
    names: dict[ProcessId, str | None] = {}
    for ran in rebalances:
        both = ran.placed
        for process, client in {} if both is None else both[0].clients.items():
            names.setdefault(process, None if isinstance(ran, RerunPlacement) else _name(ran, client.consumers))
    labels = InstanceNames(names)
    return {process: labels.short(process) for process in names}


def _name(ran: RerunRebalance, consumers: Iterable[str]) -> str | None:
    members = ran.recorded.snapshot.members
    return client_of_threads(client_id_of(consumer, members[consumer].client_id) for consumer in consumers)


def _new_process_ids(seed: str, taken: Container[ProcessId]) -> Iterator[ProcessId]:
    """Yields an endless sequence of new process ids. `taken`: ids that must not be used."""
    number = 0
    while True:
        number += 1
        process = _uuid(f"process:{seed}:{number}")
        if process not in taken:
            yield process


def new_members(process: ProcessId, count: int, client_prefix: str, taken: Container[str]) -> Iterator[tuple[str, str]]:
    """Yields a pair of ids for each new thread: a client id and a member id. The ids look like ids of Kafka Streams.
    `count`: the number of threads. `taken`: ids that must not be used.
    """
    thread = 0
    while count:
        thread += 1
        client_id = f"{client_prefix}-StreamThread-{thread}-consumer"
        member_id = f"{client_id}-{_uuid(f'member:{process}:{thread}')}"
        if client_id not in taken and member_id not in taken:
            count -= 1
            yield client_id, member_id


def _uuid(text: str) -> ProcessId:
    """Returns a UUID that is made from a hash of the text (RFC 9562, version 8)."""
    raw = bytearray(hashlib.sha256(text.encode()).digest()[:16])
    raw[6] = raw[6] & 0x0F | 0x80
    raw[8] = raw[8] & 0x3F | 0x80
    return ProcessId.from_bytes(bytes(raw))


def _new_racks(racks: Iterable[str | None]) -> Iterator[str | None]:
    """Yields an endless sequence of racks for new instances. Each instance needs a rack, because rack-aware strategies
    use it. `racks`: the racks of the existing instances.

    Each new instance is placed on the rack that has the fewest instances at that moment. If several racks have the
    fewest instances, the first of these racks by name is used. So the instances are spread over the racks as evenly as
    possible. If no existing instance has a rack, new instances have no rack.
    """
    instances = Counter(rack for rack in racks if rack is not None)
    while True:
        rack = min(instances, key=lambda each: (instances[each], each), default=None)
        if rack is not None:
            instances[rack] += 1
        yield rack
