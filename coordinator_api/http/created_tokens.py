"""The tokens that are created, listed and revoked over HTTP, and what an admin may do to which of them.

Rules: an admin whose token has a group prefix sees, creates and revokes only tokens whose prefix begins with its own;
all others might as well not exist. The names of those that it creates begin with its prefix too, so that nobody finds
out by a name which others there are. The first token of a service is an admin's for all groups, and the last such one
stays, or nobody could create another. A change is in force once it is stored, and nothing is answered before. Other
coordinators of the same database hear of it within about a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

import structlog

from assignor.access.credentials import Credentials, wall_clock_ms
from assignor.access.principals import Principal, Right
from assignor.access.tokens import TokenEntry, digest_of, new_token
from coordinator_api.http.problems import Problem
from coordinator_api.store.errors import NameTaken, StoreError
from coordinator_api.store.token_store import StoredToken, TokenStore

FROM_DATABASE = "database"

MOST_TOKENS = 10_000
"""In the database."""

READ_EVERY_S = 1.0
"""How often tokens of other coordinators are read, unless that takes more than a twentieth of the time."""

_SHARE_OF_TIME = 20


class CreatedToken(NamedTuple):
    """`token`: what is told once, and kept nowhere. `closes`: until now the service asked for no token."""

    entry: TokenEntry
    token: str
    closes: bool


class ListedToken(NamedTuple):
    """`source`: "database", or the setting that has it. `stored`: None for one of a setting."""

    source: str
    entry: TokenEntry
    stored: StoredToken | None


class CreatedTokens:
    """Of one service. Belongs to one event loop. Call `load` first.

    `is_shared`: whether other services create tokens in the same store.
    """

    def __init__(
        self,
        credentials: Credentials,
        store: TokenStore,
        now_ms: Callable[[], int] = wall_clock_ms,
        *,
        is_shared: bool = False,
    ) -> None:
        self.is_shared = is_shared
        self._credentials = credentials
        self._store = store
        self._now_ms = now_ms
        self._stored: dict[str, StoredToken] = {}
        self._is_as_stored = False
        self._one_at_a_time = asyncio.Lock()

    async def load(self) -> None:
        """Raises StoreError."""
        self._take(await self._store.tokens())

    def _take(self, stored: list[StoredToken]) -> None:
        self._stored = {token.name: token for token in stored}
        self._credentials.replace(FROM_DATABASE, [token.entry for token in stored])
        self._is_as_stored = True

    async def follow(self) -> None:
        """Read what others have created and revoked, again and again."""
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            with suppress(StoreError):
                async with self._one_at_a_time:
                    stored = await self._store.tokens()
                    if stored != list(self._stored.values()):
                        self._take(stored)
            await asyncio.sleep(max(READ_EVERY_S, _SHARE_OF_TIME * (loop.time() - began_s)))

    async def visible_to(self, caller: Principal) -> list[ListedToken]:
        """By name. Raises StoreError."""
        async with self._one_at_a_time:
            await self._load_anew()
        found = [
            ListedToken(source, entry, self._stored.get(entry.principal.name) if source == FROM_DATABASE else None)
            for source, entry in self._credentials.all_entries()
            if _is_within(caller, entry.principal)
        ]
        return sorted(found, key=lambda each: (each.entry.principal.name, each.source))

    async def create(self, caller: Principal, principal: Principal, expires_ms: int | None) -> CreatedToken:
        """Raises Problem, StoreError."""
        self._check_is_own(caller, principal)
        async with self._one_at_a_time:
            await self._load_anew()
            closes = self._credentials.is_empty
            may_create = principal.right is Right.ADMIN and principal.sees_all
            if closes and not may_create:
                raise Problem(
                    "UNACCEPTABLE_CREDENTIAL",
                    "the first token has to be an admin's for all groups (right admin, groups *): "
                    "without one nobody could create another",
                )
            if any(entry.principal.name == principal.name for _, entry in self._credentials.all_entries()):
                raise _name_is_taken(principal.name)
            if len(self._stored) >= MOST_TOKENS:
                raise Problem("POLICY_VIOLATION", "this service has as many tokens as it may: revoke some")
            token = new_token()
            entry = TokenEntry(principal, digest_of(token.encode("ascii")), expires_ms)
            try:
                await self._store_changes(self._store.add(StoredToken(entry, self._now_ms(), caller.name)))
            except NameTaken:
                raise _name_is_taken(principal.name) from None
        _log("token_created", caller, entry)
        return CreatedToken(entry, token, closes)

    async def revoke(self, caller: Principal, name: str) -> None:
        """Raises Problem, StoreError."""
        async with self._one_at_a_time:
            await self._load_anew()
            source, entry = self._visible(caller, name)
            if source != FROM_DATABASE:
                raise Problem(
                    "UNACCEPTABLE_CREDENTIAL", f"the token {name} comes from the setting {source}: take it out there"
                )
            principal = entry.principal
            is_all_admins = principal.right is Right.ADMIN and principal.sees_all
            if is_all_admins and not self._credentials.has_admin(but=entry):
                raise Problem(
                    "UNACCEPTABLE_CREDENTIAL",
                    f"{name} is the last token of an admin for all groups, and without one nobody could create "
                    "another: create that one first",
                )
            await self._store_changes(self._store.remove(name))
        _log("token_revoked", caller, entry)

    def _visible(self, caller: Principal, name: str) -> tuple[str, TokenEntry]:
        found = {
            source: entry
            for source, entry in self._credentials.all_entries()
            if entry.principal.name == name and _is_within(caller, entry.principal)
        }
        if FROM_DATABASE in found:  # a setting may have got a token of this name later
            return FROM_DATABASE, found[FROM_DATABASE]
        for source, entry in found.items():
            return source, entry
        raise Problem("RESOURCE_NOT_FOUND", "there is no token of this name that the caller may see")

    def _check_is_own(self, caller: Principal, principal: Principal) -> None:
        prefix = caller.group_prefix
        if not _is_within(caller, principal):
            raise Problem(
                "CLUSTER_AUTHORIZATION_FAILED",
                f"groups: the token of {caller.name} may create tokens only for groups whose ids begin with {prefix}",
            )
        if not principal.name.startswith(prefix):
            raise Problem(
                "CLUSTER_AUTHORIZATION_FAILED",
                f"name: the token of {caller.name} may create only tokens whose names begin with {prefix}",
            )

    async def _load_anew(self) -> None:
        """If the last write failed, so that nobody knows whether it was made, or if others write, too."""
        if self.is_shared or not self._is_as_stored:
            await self.load()

    async def _store_changes(self, writing: Awaitable[None]) -> None:
        self._is_as_stored = False
        await writing
        await self.load()


def _name_is_taken(name: str) -> Problem:
    return Problem(
        "DUPLICATE_RESOURCE", f"there is a token of the name {name} already: choose another name, or revoke that one"
    )


def _is_within(caller: Principal, principal: Principal) -> bool:
    return principal.group_prefix.startswith(caller.group_prefix)


def _log(event: str, caller: Principal, entry: TokenEntry) -> None:
    principal = entry.principal
    structlog.get_logger("coordinator_api").info(
        event, token=principal.name, right=principal.right.value, groups=f"{principal.group_prefix}*", by=caller.name
    )
