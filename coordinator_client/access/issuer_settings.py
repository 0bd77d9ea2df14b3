"""The settings of an OIDC issuer, as the coordinator and the instances' endpoints have them, and what is refused.

Rules: without the address of its keys there are no signed tokens, and with it the issuer and the audience have to be
named. Only who asks for them needs the library. Source of names and defaults: KIP-768.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignor.errors import InputError
from assignor.types import JAVA_INT_MAX

if TYPE_CHECKING:  # it is loaded for services that ask for it
    from coordinator_client.access.signed_tokens import SignedTokens

PREFIX = "sasl.oauthbearer."
KEYS_URL = f"{PREFIX}jwks.endpoint.url"
_SETTING = re.compile(r"sasl\.oauthbearer(?:\.[a-z]+)+")


@dataclass(frozen=True, slots=True)
class IssuerSettings:
    """Each field is a setting after `sasl.oauthbearer.`, with `_` for dots."""

    jwks_endpoint_url: str | None = None
    expected_issuer: str | None = None
    expected_audience: tuple[str, ...] = ()
    sub_claim_name: str = "sub"
    scope_claim_name: str = "scope"
    clock_skew_seconds: int = 30
    jwks_endpoint_refresh_ms: int = 3_600_000

    def signed_tokens(self, tell: Callable[[str], None]) -> SignedTokens | None:
        """None when no issuer is asked for; nothing is fetched yet. `tell`: as for SignedTokens.

        Raises InputError for settings that do not go together, and without the library.
        """
        if self.jwks_endpoint_url is None:
            if self.expected_issuer is not None or self.expected_audience:
                raise InputError(
                    f"{PREFIX}expected.issuer and {PREFIX}expected.audience need {KEYS_URL}: without its keys, no "
                    "token of the issuer is taken"
                )
            return None
        if self.expected_issuer is None or not self.expected_audience:
            raise InputError(
                f"{KEYS_URL} needs {PREFIX}expected.issuer and {PREFIX}expected.audience: without them, tokens for "
                "other services would count here"
            )
        try:
            from coordinator_client.access.signed_tokens import Issuer, SignedTokens
        except ModuleNotFoundError:
            raise InputError(
                f"{KEYS_URL} takes a library that is not installed: python -m pip install 'assignor[oidc]'"
            ) from None
        issuer = Issuer(
            self.jwks_endpoint_url,
            self.expected_issuer,
            self.expected_audience,
            self.sub_claim_name,
            self.scope_claim_name,
            self.clock_skew_seconds,
            self.jwks_endpoint_refresh_ms / 1000,
        )
        return SignedTokens(issuer, tell)


def signed_tokens_in(environment: Mapping[str, str], tell: Callable[[str], None]) -> SignedTokens | None:
    """As the variables say that the coordinator reads, such as ASSIGNOR_SASL_OAUTHBEARER_JWKS_ENDPOINT_URL.

    An empty one counts as none. Raises InputError, which names the variables.
    """
    try:
        return _settings_in(environment).signed_tokens(tell)
    except InputError as error:
        raise InputError(_SETTING.sub(lambda found: _variable(found[0]), str(error))) from None


def _settings_in(environment: Mapping[str, str]) -> IssuerSettings:
    def text(name: str) -> str | None:
        return environment.get(_variable(PREFIX + name)) or None

    def number(name: str, default: int, lowest: int, highest: int) -> int:
        given = text(name) or str(default)
        if not (given.isascii() and given.isdigit() and len(given) < 20 and lowest <= int(given) <= highest):
            raise InputError(f"must be a whole number from {lowest} to {highest}, not {given!r}", PREFIX + name)
        return int(given)

    usual = IssuerSettings()
    return IssuerSettings(
        text("jwks.endpoint.url"),
        text("expected.issuer"),
        tuple(part.strip() for part in (text("expected.audience") or "").split(",") if part.strip()),
        text("sub.claim.name") or usual.sub_claim_name,
        text("scope.claim.name") or usual.scope_claim_name,
        number("clock.skew.seconds", usual.clock_skew_seconds, 0, 3_600),
        number("jwks.endpoint.refresh.ms", usual.jwks_endpoint_refresh_ms, 1_000, JAVA_INT_MAX),
    )


def _variable(setting: str) -> str:
    return "ASSIGNOR_" + setting.replace(".", "_").upper()
