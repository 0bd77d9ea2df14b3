"""How texts and pictures call processes: by a name that tells them apart and that every option takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from assignor.rerun import Rerun, RerunPlacement, RerunRebalance
from assignor.types import ProcessId
from assignor.what_if.difference import placed
from assignor.what_if.process_names import instance_name

_LONGEST_NAME = 24
_DIGITS = 8


def process_labels(rounds: Iterable[Rerun]) -> dict[ProcessId, str]:
    """Every process of the rounds. The name that its client ids begin with where that is short and its own; else the
    first digits of its id, or all of them.
    """
    names: dict[ProcessId, str | None] = {}
    for ran in rounds:
        both = placed(ran)
        for process, client in {} if both is None else both[0].clients.items():
            names.setdefault(process, None if isinstance(ran, RerunPlacement) else _name(ran, client.consumers))
    short = Counter(str(process)[:_DIGITS] for process in names)
    taken = Counter(name for name in names.values() if name is not None)
    return {process: _label(process, name, short, taken) for process, name in names.items()}


def _label(process: ProcessId, name: str | None, short: Counter[str], taken: Counter[str]) -> str:
    if name is not None and taken[name] == 1:
        return name
    digits = str(process)[:_DIGITS]
    return digits if short[digits] == 1 else str(process)


def _name(ran: RerunRebalance, consumers: Iterable[str]) -> str | None:
    members = ran.recorded.snapshot.members
    names = {instance_name(members[consumer].client_id or "") for consumer in consumers}
    name = names.pop() if len(names) == 1 else None
    return name if name is not None and len(name) <= _LONGEST_NAME else None
