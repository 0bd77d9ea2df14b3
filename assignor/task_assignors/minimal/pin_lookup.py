"""The rules that the configured pins set for the tasks and clients of one rebalance.

If no client can satisfy a task's pin, the pin is ignored, because the task has to run on some client. If a pin is
ignored, a decision of the kind PIN_SET_ASIDE is logged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from assignor.configs.pins import APART_BY_PROCESS, Pin
from assignor.task_assignors.base import PlacementClient
from assignor.types import TaskId

TagValue = str | int
"""A value that an `apart` pin requires to differ between clients. The conflict value is the value of a client tag, or
the client's number if the pin separates copies by process.
"""


@dataclass(frozen=True, slots=True)
class AllowedClients:
    """The clients that may get a task. `clients`: the allowed clients, sorted. `members`: the allowed clients as a set.
    `set_aside`: True if no client can satisfy the task's pins; all clients are then allowed.
    """

    clients: tuple[int, ...]
    members: frozenset[int]
    set_aside: bool = False

    @classmethod
    def of(cls, clients: Iterable[int], set_aside: bool = False) -> AllowedClients:
        ordered = tuple(clients)
        return cls(ordered, frozenset(ordered), set_aside)


@dataclass(slots=True, eq=False)
class ApartRule:
    """The rule of one `apart` pin. Two rules are equal only if they are the same object.

    `value[client]`: the value that must differ between the clients of the pin's copies; None for a client without the
    tag. A client without the tag never conflicts with another client. `used`: for each value, the number of copies on
    clients that have this value.
    """

    pin: Pin
    value: list[TagValue | None]
    used: Counter[TagValue] = field(default_factory=Counter)


class PinnedTasks:
    """The clients that each task may go to. Tasks are given by id, and clients by number."""

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
        """Returns the clients that have all tags that the task's pins require. Returns all clients if no pin names the
        task, or if no client has all required tags.
        """
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
    """True if a copy on `client` would conflict with no other copy. `instead_of`: the client whose copy would move to
    `client`; this copy does not count as a conflict.
    """
    for rule in rules:
        value = rule.value[client]
        if value is None:
            continue
        leaving = instead_of is not None and rule.value[instead_of] == value
        if rule.used[value] > leaving:
            return False
    return True


def use(rules: Sequence[ApartRule], client: int, copies: int = 1) -> None:
    """Adds copies on `client` to the counts of each rule. `copies`: the number of new copies; a negative number stands
    for removed copies.
    """
    for rule in rules:
        value = rule.value[client]
        if value is not None:
            rule.used[value] += copies


def _value(client: PlacementClient, number: int, key: str | None) -> TagValue | None:
    if key == APART_BY_PROCESS:
        return number
    return client.tags.get(key or "")
