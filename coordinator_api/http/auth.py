"""The gate that every call passes: who calls (`assignor.access`), and whether it may (`call_rights`).

Tokens come from settings, from files and from the database, from all of them at the same time. Without any the service
refuses to listen where others can reach it. The two health checks are open to everybody.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import structlog

from assignor.access.credentials import Credentials
from assignor.access.issuer_settings import KEYS_URL, IssuerSettings
from assignor.access.principals import ANYBODY, AccessRefusal, Principal, caller, is_loopback
from assignor.access.token_files import LOOK_EVERY_S, TokenFiles
from assignor.access.tokens import parse_entries, parse_plain_token, plain_token
from assignor.errors import InputError
from coordinator_api.http.call_rights import OPEN_PATHS, call_of, check_right, need
from coordinator_api.http.created_tokens import CreatedTokens
from coordinator_api.http.page_rights import VISITOR, is_open_page, is_page, with_session
from coordinator_api.http.problems import Problem
from coordinator_api.settings import Settings, SettingsError
from coordinator_api.store.token_store import TokenStore

if TYPE_CHECKING:  # it is loaded for services that ask for it
    from assignor.access.signed_tokens import SignedTokens


class Access:
    """All tokens of one service. Call `load` before the first request.

    Raises InputError for a setting or a file that has no tokens.
    """

    created: CreatedTokens

    def __init__(self, settings: Settings) -> None:
        self.credentials = Credentials()
        self._files = TokenFiles(self.credentials, _tell)
        if settings.auth_token is not None:
            self.credentials.replace("auth.token", [plain_token("auth.token", settings.auth_token)])
        if settings.auth_tokens is not None:
            self.credentials.replace("auth.tokens", parse_entries(settings.auth_tokens, "auth.tokens"))
        if settings.auth_token_file is not None:
            self._files.add("auth.token.file", settings.auth_token_file, parse_plain_token)
        if settings.auth_tokens_file is not None:
            self._files.add("auth.tokens.file", settings.auth_tokens_file, parse_entries)
        self._told_expired = False
        self._signed = _signed_tokens(settings)
        if self._signed is not None:
            self.credentials.also_find(self._signed.find)

    def is_tenant(self, prefix: str) -> bool:
        """Whether there are tokens for exactly this prefix of group ids."""
        return prefix in self.credentials.group_prefixes

    async def load(self, store: TokenStore, *, is_shared: bool = False) -> None:
        """Take those of the database, too, and the keys of who signs others. Raises StoreError.

        `is_shared`: whether other coordinators create tokens in the same database.
        """
        await self._look()
        self.created = CreatedTokens(self.credentials, store, is_shared=is_shared)
        await self.created.load()
        if self.credentials.have_expired and not self._told_expired:
            self._told_expired = True
            structlog.get_logger("coordinator_api").warning(
                "tokens_expired",
                message="every token has expired, so every call is refused: set auth.token.file, or add a token to "
                "the file of auth.tokens.file (`assignor tokens create NAME --right admin --file FILE`)",
            )

    def check_exposure(self, host: str) -> None:
        """Refuse to listen where others can reach the service without a token. Raises SettingsError."""
        if self.credentials.is_empty and not is_loopback(host):
            raise SettingsError(
                f"host {host} can be reached from outside this machine, and there is no token: set auth.token.file or "
                "auth.tokens.file, or listen on 127.0.0.1 (`assignor tokens create` creates tokens there)"
            )

    @asynccontextmanager
    async def kept_up_to_date(self) -> AsyncIterator[None]:
        """Within the block, files that change are read again, and tokens that other coordinators create."""
        looking: list[asyncio.Task[None]] = []
        if not self._files.are_none or self._signed is not None:
            looking.append(asyncio.create_task(self._look_again_and_again()))
        if self.created.is_shared:
            looking.append(asyncio.create_task(self.created.follow()))
        try:
            yield
        finally:
            for each in looking:
                each.cancel()
                with suppress(asyncio.CancelledError):
                    await each

    async def _look_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await self._look()

    async def _look(self) -> None:
        # a file system or an issuer that does not answer must not hold up the calls
        await asyncio.to_thread(self._files.look)
        if self._signed is not None:
            await asyncio.to_thread(self._signed.refresh_if_due)


def _signed_tokens(settings: Settings) -> SignedTokens | None:
    """Raises SettingsError without the library for them, and without an issuer or an audience."""
    issuer = IssuerSettings(
        settings.sasl_oauthbearer_jwks_endpoint_url,
        settings.sasl_oauthbearer_expected_issuer,
        settings.sasl_oauthbearer_expected_audience,
        settings.sasl_oauthbearer_sub_claim_name,
        settings.sasl_oauthbearer_scope_claim_name,
        settings.sasl_oauthbearer_clock_skew_seconds,
        settings.sasl_oauthbearer_jwks_endpoint_refresh_ms,
    )
    try:
        return issuer.signed_tokens(lambda sentence: _tell(KEYS_URL, sentence))
    except InputError as error:
        raise SettingsError(str(error)) from None


def _tell(setting: str, sentence: str) -> None:
    structlog.get_logger("coordinator_api").warning("tokens_changed", setting=setting, message=sentence)


class Gate:
    """Lets a request through or raises Problem."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def check(self, method: str, path: str, headers: Mapping[str, str]) -> Principal:
        """Who calls, and may. `headers` have lower-case names. Raises Problem 401 or 403."""
        found = self.caller(path, headers)
        check_right(found, need(call_of(method, path), path))
        return found

    def caller(self, path: str, headers: Mapping[str, str]) -> Principal:
        """Who calls, whatever it may. `headers` have lower-case names. Raises Problem 401 or 403."""
        if path in OPEN_PATHS:
            return ANYBODY
        if is_page(path):
            if is_open_page(path) and not self._credentials.is_empty:
                return VISITOR
            headers = with_session(headers)
        found = caller(None if self._credentials.is_empty else self._credentials.find, headers)
        if isinstance(found, AccessRefusal):
            if found.challenge is None:
                raise Problem("CLUSTER_AUTHORIZATION_FAILED", found.detail)
            raise Problem("SASL_AUTHENTICATION_FAILED", found.detail, headers={"WWW-Authenticate": found.challenge})
        return found
