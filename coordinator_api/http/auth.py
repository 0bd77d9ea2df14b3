"""Manages all tokens of one service. Callers create, list and revoke the tokens in the database over HTTP.

A service may take tokens from settings, from files and from the database at the same time. A service without tokens
refuses to listen on an address that other machines can reach.

An admin whose token has a group prefix can see, create and revoke only certain tokens. The group prefix of such a token
begins with the admin's prefix. If an admin with a prefix creates a token, the token's name must also begin with this
prefix. Without this rule, a refused name would reveal that another tenant has a token of this name. The first token of
a service is an admin token for all groups. The last admin token for all groups cannot be revoked, because nobody else
can create tokens for all groups. If a call creates or revokes a token, its answer is sent when the change is stored and
in force. Other coordinators of the same database see the change within about a second.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import structlog

from coordinator_api.http.models.service_models import CreatedTokenAnswer, TokenLine
from coordinator_api.http.problems import Problem
from coordinator_api.settings import Settings, SettingsError
from coordinator_api.store.store_errors import NameTaken, StoreError
from coordinator_api.store.token_store import StoredToken, TokenStore
from coordinator_client.access.credentials import Credentials, wall_clock_ms
from coordinator_client.access.principals import Principal, Right, is_loopback
from coordinator_client.access.signed_tokens import KEYS_URL, IssuerSettings, SignedTokens
from coordinator_client.access.token_files import CHECK_INTERVAL_S, TokenFiles
from coordinator_client.access.tokens import (
    TokenEntry,
    digest_of,
    group_pattern,
    new_token,
    parse_entries,
    parse_plain_token,
    plain_token,
)

FROM_DATABASE = "database"

MOST_TOKENS = 10_000
"""The largest number of tokens in the database."""

READ_EVERY_S = 1.0
"""The shortest pause between two reads of the database for tokens that other coordinators created. If a read takes
long, the next pause is longer: at least 20 times the duration of the read.
"""

_SHARE_OF_TIME = 20


class CreatedTokens:
    """The tokens of one service that are stored in the database. Use a `CreatedTokens` on one event loop only. Call
    `load` before any other method.

    `is_shared`: True if other services create tokens in the same store. Each method first reads the store for two
    reasons. Other services may have changed the store, and an earlier write may have been committed although it raised
    an error.
    """

    def __init__(self, credentials: Credentials, store: TokenStore, *, is_shared: bool) -> None:
        self.is_shared = is_shared
        self._credentials = credentials
        self._store = store
        self._stored: dict[str, StoredToken] = {}
        self._one_at_a_time = asyncio.Lock()

    async def load(self) -> None:
        """Read the tokens of the store. Raises StoreError."""
        self._take(await self._store.tokens())

    def _take(self, stored: list[StoredToken]) -> None:
        self._stored = {token.name: token for token in stored}
        self._credentials.replace(FROM_DATABASE, [token.entry for token in stored])

    async def follow(self) -> None:
        """Reads the tokens periodically, because other services may create or revoke tokens."""
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            with suppress(StoreError):
                async with self._one_at_a_time:
                    stored = await self._store.tokens()
                    if stored != list(self._stored.values()):
                        self._take(stored)
            await asyncio.sleep(max(READ_EVERY_S, _SHARE_OF_TIME * (loop.time() - began_s)))

    async def visible_to(self, caller: Principal) -> list[TokenLine]:
        """Returns the tokens that `caller` may see, ordered by name. Raises StoreError."""
        async with self._one_at_a_time:
            await self.load()
        lines = [self._line(source, entry) for source, entry in self._visible(caller)]
        return sorted(lines, key=lambda line: (line.name, line.source))

    def _line(self, source: str, entry: TokenEntry) -> TokenLine:
        principal = entry.principal
        stored = self._stored.get(principal.name) if source == FROM_DATABASE else None
        return TokenLine(
            name=principal.name,
            right=principal.right.value,
            groups=group_pattern(principal.group_prefix),
            source=source,
            expires_ms=entry.expires_ms,
            created_ms=None if stored is None else stored.created_ms,
            created_by=None if stored is None else stored.created_by,
        )

    async def create(self, caller: Principal, principal: Principal, expires_ms: int | None) -> CreatedTokenAnswer:
        """Creates a token. Only the answer contains the token: the store has only the token's hash. Raises Problem,
        StoreError.
        """
        self._check_is_own(caller, principal)
        async with self._one_at_a_time:
            await self.load()
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
                await self._store.add(StoredToken(entry, wall_clock_ms(), caller.name))
            except NameTaken:
                raise _name_is_taken(principal.name) from None
            await self.load()
        _log("token_created", caller, entry)
        return CreatedTokenAnswer(
            name=principal.name,
            right=principal.right.value,
            groups=group_pattern(principal.group_prefix),
            expires_ms=expires_ms,
            token=token,
            note="from now on every call of this service needs a token" if closes else None,
        )

    async def revoke(self, caller: Principal, name: str) -> None:
        """Revokes the token `name`. Raises Problem or StoreError."""
        async with self._one_at_a_time:
            await self.load()
            found = [(source, entry) for source, entry in self._visible(caller) if entry.principal.name == name]
            if not found:
                raise Problem("RESOURCE_NOT_FOUND", "there is no token of this name that the caller may see")
            # A setting and the database may contain tokens of the same name. In this case, revoke the token of the
            # database.
            source, entry = min(found, key=lambda each: each[0] != FROM_DATABASE)
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
            await self._store.remove(name)
            await self.load()
        _log("token_revoked", caller, entry)

    def _visible(self, caller: Principal) -> list[tuple[str, TokenEntry]]:
        """Returns the tokens that `caller` may see, as pairs of source and token. The source is the setting that the
        token comes from, or "database".
        """
        return [each for each in self._credentials.all_entries() if _is_within(caller, each[1].principal)]

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


class Access:
    """All tokens of one service. Call `load` before the first request.

    The constructor raises InputError if the tokens of a setting or a file cannot be read.
    """

    created: CreatedTokens

    def __init__(self, settings: Settings) -> None:
        self.credentials = Credentials()
        self._files = TokenFiles(self.credentials, _warn)
        if settings.auth_token is not None:
            self.credentials.replace("auth.token", [plain_token("auth.token", settings.auth_token)])
        if settings.auth_tokens is not None:
            self.credentials.replace("auth.tokens", parse_entries(settings.auth_tokens, "auth.tokens"))
        if settings.auth_token_file is not None:
            self._files.add("auth.token.file", settings.auth_token_file, parse_plain_token)
        if settings.auth_tokens_file is not None:
            self._files.add("auth.tokens.file", settings.auth_tokens_file, parse_entries)
        self._signed = _signed_tokens(settings)
        if self._signed is not None:
            self.credentials.also_find(self._signed.find, self._signed.find_expired)

    def is_tenant(self, prefix: str) -> bool:
        """Returns True if at least one token has exactly this group prefix."""
        return prefix in self.credentials.group_prefixes

    async def load(self, store: TokenStore, *, is_shared: bool) -> None:
        """Load the tokens of the files and the database, and the keys of the issuer of signed tokens. Raises
        StoreError.

        `is_shared`: True if other coordinators create tokens in the same database.
        """
        await self._reload_files()
        self.created = CreatedTokens(self.credentials, store, is_shared=is_shared)
        await self.created.load()
        if self.credentials.have_expired:
            structlog.get_logger("coordinator_api").warning(
                "tokens_expired",
                message="every token has expired, so every call is refused: set auth.token.file, or add a token to "
                "the file of auth.tokens.file (`assignor tokens create NAME --right admin --file FILE`)",
            )

    def check_exposure(self, host: str) -> None:
        """Raises SettingsError if other machines could reach the service although the service has no token."""
        if self.credentials.is_empty and not is_loopback(host):
            raise SettingsError(
                f"host {host} can be reached from outside this machine, and there is no token: set auth.token.file or "
                "auth.tokens.file, or listen on 127.0.0.1 (`assignor tokens create` creates tokens there)"
            )

    @asynccontextmanager
    async def kept_up_to_date(self) -> AsyncIterator[None]:
        """Within the block, reads token files again when they change. If other coordinators use the same database, also
        reads the tokens of the database periodically.
        """
        watchers: list[asyncio.Task[None]] = []
        if not self._files.are_none or self._signed is not None:
            watchers.append(asyncio.create_task(self._reload_periodically()))
        if self.created.is_shared:
            watchers.append(asyncio.create_task(self.created.follow()))
        try:
            yield
        finally:
            for each in watchers:
                each.cancel()
                with suppress(asyncio.CancelledError):
                    await each

    async def _reload_periodically(self) -> None:
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            await self._reload_files()

    async def _reload_files(self) -> None:
        # read in a thread, so that a slow file system or issuer does not block the event loop
        await asyncio.to_thread(self._files.reload_changed)
        if self._signed is not None:
            await asyncio.to_thread(self._signed.refresh_if_due)


def _signed_tokens(settings: Settings) -> SignedTokens | None:
    """Returns None if the settings have no address of the issuer's keys. Raises InputError if the library for signed
    tokens is missing, or if the settings have no issuer or no audience.
    """
    issuer = IssuerSettings(
        settings.sasl_oauthbearer_jwks_endpoint_url,
        settings.sasl_oauthbearer_expected_issuer,
        settings.sasl_oauthbearer_expected_audience,
        settings.sasl_oauthbearer_sub_claim_name,
        settings.sasl_oauthbearer_scope_claim_name,
        settings.sasl_oauthbearer_clock_skew_seconds,
        settings.sasl_oauthbearer_jwks_endpoint_refresh_ms,
    )
    return issuer.signed_tokens(lambda sentence: _warn(KEYS_URL, sentence))


def _warn(setting: str, sentence: str) -> None:
    structlog.get_logger("coordinator_api").warning("tokens_changed", setting=setting, message=sentence)
