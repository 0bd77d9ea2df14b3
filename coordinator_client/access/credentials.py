"""All tokens that a service knows, from whichever sources, and whose a given one is.

Each source has its own set, which is replaced as a whole when the source has changed: so tokens are rotated without a
restart. A token is found by its hash. The comparison therefore tells nothing about the token, however long it takes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from coordinator_client.access.principals import FindPrincipal, Principal, Right
from coordinator_client.access.tokens import TokenEntry, digest_of


def wall_clock_ms() -> int:
    """The machine's time, by which tokens expire."""
    return time.time_ns() // 1_000_000


class Credentials:
    """Belongs to one service. `replace` may be called from several threads, and from others than `find`.

    `group_prefixes`: those of all tokens; the empty one is that of a token that sees all groups. `is_empty`: whether no
    source has a token; then calls carry none.
    """

    def __init__(self, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._now_ms = now_ms
        self._replacing = threading.Lock()
        self._of_source: Mapping[str, tuple[TokenEntry, ...]] = {}
        self._by_digest: Mapping[str, TokenEntry] = {}
        self.group_prefixes: frozenset[str] = frozenset()
        self.is_empty = True
        self._find_signed: FindPrincipal | None = None

    def replace(self, source: str, entries: Iterable[TokenEntry]) -> None:
        """Take these tokens of `source` in the place of those that it had."""
        with self._replacing:
            self._of_source = {**self._of_source, source: tuple(entries)}
            self._by_digest = {entry.digest: entry for each in self._of_source.values() for entry in each}
            self.group_prefixes = frozenset(entry.principal.group_prefix for entry in self._by_digest.values())
            self.is_empty = not self._by_digest and self._find_signed is None

    def also_find(self, find_signed: FindPrincipal) -> None:
        """Ask `find_signed` for tokens of somebody else, which are known by their signature and not by their hash."""
        self._find_signed = find_signed
        self.is_empty = False

    def entries(self, source: str) -> tuple[TokenEntry, ...]:
        return self._of_source.get(source, ())

    def all_entries(self) -> Iterator[tuple[str, TokenEntry]]:
        """Every token with its source, those that have expired too."""
        for source, entries in self._of_source.items():
            for entry in entries:
                yield source, entry

    @property
    def have_expired(self) -> bool:
        """Whether there are tokens, and nobody can call with any of them."""
        now_ms = self._now_ms()
        valid = any(entry.is_valid_at(now_ms) for _, entry in self.all_entries())
        return not self.is_empty and self._find_signed is None and not valid

    def has_admin(self, but: TokenEntry | None = None) -> bool:
        """Whether somebody is left who may create a token for any group. `but`: as if this one was revoked."""
        now_ms = self._now_ms()
        return self._find_signed is not None or any(
            entry.principal.right is Right.ADMIN and entry.principal.sees_all and entry.is_valid_at(now_ms)
            for _, entry in self.all_entries()
            if entry is not but
        )

    def find(self, token: bytes) -> Principal | None:
        """Whose token it is; None when it is nobody's, or has expired. `token`: as it was sent."""
        entry = self._by_digest.get(digest_of(token))
        if entry is not None:
            return entry.principal if entry.is_valid_at(self._now_ms()) else None
        return None if self._find_signed is None else self._find_signed(token)
