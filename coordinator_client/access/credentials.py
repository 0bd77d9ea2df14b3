"""Stores all tokens of a service, and finds the principal of a given token.

Tokens come from several sources, such as files. When a source changes, all its tokens are replaced in one step. So
tokens can be rotated without a restart. A token is looked up by its hash, so the duration of the look-up reveals
nothing about the token.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from coordinator_client.access.principals import ExpiredToken, FindPrincipal, Principal, Right
from coordinator_client.access.tokens import TokenEntry, digest_of


def wall_clock_ms() -> int:
    """Returns the machine's time in milliseconds. Expiry times of tokens are compared with this time."""
    return time.time_ns() // 1_000_000


class Credentials:
    """The tokens of one service. Several threads may call `replace`, and other threads may call `find` at the same
    time.

    `group_prefixes`: the prefixes of all tokens; the prefix is empty if a token applies to all groups. `is_empty`: True
    if there are no tokens and no issuer of signed tokens. Calls then need no token.
    """

    def __init__(self, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._now_ms = now_ms
        self._replacing = threading.Lock()
        self._of_source: Mapping[str, tuple[TokenEntry, ...]] = {}
        self._by_digest: Mapping[str, TokenEntry] = {}
        self.group_prefixes: frozenset[str] = frozenset()
        self.is_empty = True
        self._find_signed: FindPrincipal | None = None
        self._find_expired_signed: Callable[[bytes], ExpiredToken | None] | None = None

    def replace(self, source: str, entries: Iterable[TokenEntry]) -> None:
        """Replaces all tokens of a source by new tokens."""
        with self._replacing:
            self._of_source = {**self._of_source, source: tuple(entries)}
            self._by_digest = {entry.digest: entry for each in self._of_source.values() for entry in each}
            self.group_prefixes = frozenset(entry.principal.group_prefix for entry in self._by_digest.values())
            self.is_empty = not self._by_digest and self._find_signed is None

    def also_find(
        self, find_signed: FindPrincipal, find_expired: Callable[[bytes], ExpiredToken | None] | None = None
    ) -> None:
        """After this call, the method `find` calls `find_signed` for each token that no source has, and `find_expired`
        calls the function of this name. A token that is in no source may be a signed token of an issuer.
        """
        self._find_signed, self._find_expired_signed = find_signed, find_expired
        self.is_empty = False

    def entries(self, source: str) -> tuple[TokenEntry, ...]:
        return self._of_source.get(source, ())

    def all_entries(self) -> Iterator[tuple[str, TokenEntry]]:
        """Yields every token with its source, including expired tokens."""
        for source, entries in self._of_source.items():
            for entry in entries:
                yield source, entry

    @property
    def have_expired(self) -> bool:
        """True if the service has tokens, and all of its tokens have expired. A service with only expired tokens
        accepts no call.
        """
        now_ms = self._now_ms()
        valid = any(entry.is_valid_at(now_ms) for _, entry in self.all_entries())
        return not self.is_empty and self._find_signed is None and not valid

    def has_admin(self, but: TokenEntry | None = None) -> bool:
        """Returns True if a valid token has the right to create tokens for all groups. `but`: a token that is ignored.
        Returns True if there is an issuer of signed tokens, because its tokens may have this right.
        """
        now_ms = self._now_ms()
        return self._find_signed is not None or any(
            entry.principal.right is Right.ADMIN and entry.principal.sees_all and entry.is_valid_at(now_ms)
            for _, entry in self.all_entries()
            if entry is not but
        )

    def find_expired(self, token: bytes) -> ExpiredToken | None:
        """Returns the principal and the expiry time of a token that was valid; None for any other token."""
        entry = self._by_digest.get(digest_of(token))
        if entry is not None and entry.expires_ms is not None and not entry.is_valid_at(self._now_ms()):
            return ExpiredToken(entry.principal, entry.expires_ms)
        return None if entry is not None or self._find_expired_signed is None else self._find_expired_signed(token)

    def find(self, token: bytes) -> Principal | None:
        """Returns the principal of a token, or None for an unknown or expired token. `token`: the bytes that the caller
        sent.
        """
        entry = self._by_digest.get(digest_of(token))
        if entry is not None:
            return entry.principal if entry.is_valid_at(self._now_ms()) else None
        return None if self._find_signed is None else self._find_signed(token)
