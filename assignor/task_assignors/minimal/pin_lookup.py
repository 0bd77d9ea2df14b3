"""The pins of the configs, looked up for the tasks and clients of one rebalance.

A pin that no client can keep is set aside for that task, and a decision reports it: a task has to run somewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from assignor.configs.pins import APART_BY_PROCESS, Pin
from assignor.task_assignors.base import PlacementClient
from assignor.types import TaskId

TagValue = str | int
"""The value of a client tag; the client's number for tasks kept apart by process."""


@dataclass(frozen=True, slots=True)
class AllowedClients:
    """`clients`: sorted; `members`: the same as a set. `set_aside`: whether no client could keep the pins."""

    clients: tuple[int, ...]
    members: frozenset[int]
    set_aside: bool = False

    @classmethod
    def of(cls, clients: Iterable[int], set_aside: bool = False) -> AllowedClients:
        ordered = tuple(clients)
        return cls(ordered, frozenset(ordered), set_aside)


@dataclass(slots=True, eq=False)
class ApartRule:
    """Equal only to itself. `value[client]`: the value that must differ; None for a client without the tag, which
    conflicts with nobody. `used`: how many copies lie on clients with each value.
    """

    pin: Pin
    value: list[TagValue | None]
    used: Counter[TagValue] = field(default_factory=Counter)


class PinnedTasks:
    """Which clients a task may go to. Tasks are looked up by id; clients are numbers."""

    def __init__(self, pins: Sequence[Pin], clients: Sequence[PlacementClient]) -> None:
        self._everybody = AllowedClients.of(range(len(clients)))
        self._clients = clients
        self._tag_pins = [pin for pin in pins if pin.apart is None]
        self._allowed: dict[tuple[int, ...], AllowedClients] = {(): self._everybody}
        self._apart = [
            ApartRule(pin, [_value(client, number, pin.apart) for number, client in enumerate(clients)])
            for pin in pins
            if pin.apart is not None
        ]

    def allowed(self, task: TaskId) -> AllowedClients:
        """By tags. All clients when no pin names the task, or when no client has the tags that its pins ask for."""
        if not self._tag_pins:
            return self._everybody
        rules = tuple(number for number, pin in enumerate(self._tag_pins) if pin.names(task))
        allowed = self._allowed.get(rules)
        if allowed is None:
            wanted = {tag for number in rules for tag in self._tag_pins[number].tags}
            keep = [number for number, client in enumerate(self._clients) if wanted <= set(client.tags.items())]
            allowed = AllowedClients.of(keep or self._everybody.clients, set_aside=not keep)
            self._allowed[rules] = allowed
        return allowed

    def apart_rules(self, task: TaskId) -> list[ApartRule]:
        return [rule for rule in self._apart if rule.pin.names(task)] if self._apart else []


def is_free(rules: Sequence[ApartRule], client: int, instead_of: int | None = None) -> bool:
    """Whether no other copy conflicts with one on `client`. `instead_of`: a client whose copy would move away."""
    for rule in rules:
        value = rule.value[client]
        if value is None:
            continue
        leaving = instead_of is not None and rule.value[instead_of] == value
        if rule.used[value] > leaving:
            return False
    return True


def use(rules: Sequence[ApartRule], client: int, copies: int = 1) -> None:
    """Counts a copy on `client`; with -1 it is no longer there."""
    for rule in rules:
        value = rule.value[client]
        if value is not None:
            rule.used[value] += copies


def _value(client: PlacementClient, number: int, key: str | None) -> TagValue | None:
    if key == APART_BY_PROCESS:
        return number
    return client.tags.get(key or "")
