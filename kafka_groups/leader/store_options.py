"""What can be said on the command line of stores, because the text of `Topology#describe` does not have it.

`STORE=not-logged`, `STORE=topic:NAME` (restored from a topic that is read, no changelog of its own), and
`STORE=retention.ms:N` (windowed; of the store, its changelog keeps windowstore.changelog.additional.retention.ms more).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from assignor.errors import InputError

_WHERE = "--store"


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """By store. `source_changelogs`: to topics; `retention_ms`: of windowed ones."""

    not_logged: frozenset[str] = frozenset()
    source_changelogs: Mapping[str, str] = field(default_factory=dict)
    retention_ms: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.not_logged or self.source_changelogs or self.retention_ms)


def stores_from_options(options: Sequence[str]) -> StoreFacts:
    """Raises InputError."""
    not_logged: set[str] = set()
    source_changelogs: dict[str, str] = {}
    retention_ms: dict[str, int] = {}
    for option in options:
        store, _, said = option.partition("=")
        kind, _, value = said.partition(":")
        if store in not_logged or store in source_changelogs or store in retention_ms:
            raise InputError(f"{store} is given twice", _WHERE)
        if store and said == "not-logged":
            not_logged.add(store)
        elif store and kind == "topic" and value:
            source_changelogs[store] = value
        elif store and kind == "retention.ms" and value.isascii() and value.isdecimal():
            retention_ms[store] = int(value)
        else:
            forms = "STORE=not-logged, STORE=topic:NAME or STORE=retention.ms:N"
            raise InputError(f"must be {forms}, not {option!r}", _WHERE)
    return StoreFacts(frozenset(not_logged), source_changelogs, retention_ms)
