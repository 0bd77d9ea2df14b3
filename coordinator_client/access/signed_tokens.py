"""Checks the JSON Web Tokens of an OIDC issuer. The issuer publishes the keys for this check.

Rules:

- The library PyJWT checks the signature and the claims. This module fetches the keys, and passes the list of required
  claims to PyJWT.
- Only asymmetric signatures are accepted. The algorithm of a signature has to fit the type of the key. Without this
  rule, an attacker could use a published key as an HMAC secret.
- The service fetches the issuer's keys before it listens. A running service fetches the keys periodically, and also
  soon after a token has named an unknown key. Fetches of keys run in the background, and no call waits for them. If a
  fetch of keys fails, the old keys stay in force.
- A verified token is cached until it expires or the issuer's keys change.
- Signed tokens are accepted only if three settings are given: the address of the issuer's keys, the issuer and the
  audience. The names and defaults of the settings come from KIP-768.

A token has one scope that names a right and groups, for example `assignor:member:payments-*`. Only this module imports
PyJWT (extra `oidc`). PyJWT is imported only if the settings name an issuer.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from http.client import HTTPException, InvalidURL
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

from assignor.errors import InputError
from assignor.types import JAVA_INT_MAX
from coordinator_client.access.principals import ExpiredToken, Principal, Right
from coordinator_client.access.tokens import digest_of, group_prefix

if TYPE_CHECKING:
    import jwt

ALGORITHMS: Mapping[str, tuple[str, ...]] = {"RSA": ("RS256", "PS256"), "EC": ("ES256",), "OKP": ("EdDSA",)}
"""Maps each type of key (`kty`) to the accepted signature algorithms."""

UNKNOWN_KEY_EVERY_S = 60.0
"""A token with an unknown key causes a fetch of keys. This is the shortest time between two such fetches. Without this
limit, anybody could cause many fetches by sending tokens with unknown keys.
"""

FETCH_TIMEOUT_S = 5.0
MOST_KEY_BYTES = 1_048_576
MOST_TOKEN_BYTES = 16_384
MOST_REMEMBERED = 10_000
_LONGEST_NAME = 200
_SCOPE = re.compile(r"assignor:([a-z]+):(\S+)\Z")
_NAME = re.compile(r"[\x21-\x7e]+\Z")

PREFIX = "sasl.oauthbearer."
KEYS_URL = f"{PREFIX}jwks.endpoint.url"
_LIMITS = {"clock_skew_seconds": (0, 3_600), "jwks_endpoint_refresh_ms": (1_000, JAVA_INT_MAX)}
_SETTING = re.compile(r"sasl\.oauthbearer(?:\.[a-z]+)+")


@dataclass(frozen=True, slots=True)
class IssuerSettings:
    """The settings of one issuer. The name of each field is the name of a setting, without the prefix
    `sasl.oauthbearer.` and with `_` in place of dots. `jwks_endpoint_url`: a URL with the scheme http, https or file.
    """

    jwks_endpoint_url: str | None = None
    expected_issuer: str | None = None
    expected_audience: tuple[str, ...] = ()
    sub_claim_name: str = "sub"
    scope_claim_name: str = "scope"
    clock_skew_seconds: int = 30
    jwks_endpoint_refresh_ms: int = 3_600_000

    def signed_tokens(self, report: Callable[[str], None]) -> SignedTokens | None:
        """Makes the SignedTokens of these settings, but does not fetch keys yet. Returns None if the settings name no
        issuer. `report`: the function that `SignedTokens` calls if a fetch of keys fails.

        Raises InputError if settings contradict each other, or if PyJWT is not installed.
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
            import jwt  # noqa: F401
        except ModuleNotFoundError:
            raise InputError(
                f"{KEYS_URL} takes a library that is not installed: python -m pip install 'assignor[oidc]'"
            ) from None
        if urlsplit(self.jwks_endpoint_url).scheme not in ("http", "https", "file"):
            raise InputError("must be a URL such as https://issuer/keys or file:///keys.json", KEYS_URL)
        return SignedTokens(self, report)


def signed_tokens_in(environment: Mapping[str, str], report: Callable[[str], None]) -> SignedTokens | None:
    """Makes the SignedTokens from the environment variables that the coordinator also reads, such as
    ASSIGNOR_SASL_OAUTHBEARER_JWKS_ENDPOINT_URL.

    An empty variable counts as not set. Raises InputError if a variable is not valid; the message names the variable.
    """
    try:
        return _settings_in(environment).signed_tokens(report)
    except InputError as error:
        raise InputError(_SETTING.sub(lambda found: _variable(found[0]), str(error))) from None


def _settings_in(environment: Mapping[str, str]) -> IssuerSettings:
    given: dict[str, Any] = {}
    for name in (each.name for each in fields(IssuerSettings)):
        setting = PREFIX + name.replace("_", ".")
        text = environment.get(_variable(setting))
        if not text:
            continue
        given[name] = text
        if name == "expected_audience":
            given[name] = tuple(part.strip() for part in text.split(",") if part.strip())
        if name in _LIMITS:
            lowest, highest = _LIMITS[name]
            if not (text.isascii() and text.isdigit() and len(text) < 20 and lowest <= int(text) <= highest):
                raise InputError(f"must be a whole number from {lowest} to {highest}, not {text!r}", setting)
            given[name] = int(text)
    return IssuerSettings(**given)


def _variable(setting: str) -> str:
    return "ASSIGNOR_" + setting.replace(".", "_").upper()


class _Key(NamedTuple):
    jwk: jwt.PyJWK
    algorithms: tuple[str, ...]


class SignedTokens:
    """Checks the tokens of one issuer. One thread may call `refresh_if_due` while another thread calls `find`.

    `report`: if a fetch of keys fails, this function is called with the reason.
    """

    def __init__(
        self, issuer: IssuerSettings, report: Callable[[str], None], monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        assert issuer.jwks_endpoint_url is not None, "without it no issuer is asked for"
        self._keys_url = issuer.jwks_endpoint_url
        self._refresh_s = issuer.jwks_endpoint_refresh_ms / 1000
        self._issuer = issuer
        self._report = report
        self._monotonic_s = monotonic_s
        self._keys: Mapping[str, _Key] = {}
        self._document = b""
        self._due_s = 0.0
        self._asked_for_unknown_s = -UNKNOWN_KEY_EVERY_S
        self._known: dict[str, tuple[Principal, float]] = {}
        self._lock = threading.Lock()

    def refresh_if_due(self) -> None:
        """Fetches the issuer's keys if a fetch is due. A failed fetch is reported, and a later call of `refresh_if_due`
        repeats it. The method never raises.
        """
        now_s = self._monotonic_s()
        if now_s < self._due_s:
            return
        try:
            document = _fetch(self._keys_url)
            keys = _keys_in(document)
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            self._due_s = now_s + min(UNKNOWN_KEY_EVERY_S, self._refresh_s)
            stays = f"the {len(self._keys)} former ones stay in force" if self._keys else "no token of it is taken"
            self._report(f"the keys of {self._issuer.expected_issuer} cannot be fetched ({_reason(error)}): {stays}")
            return
        self._due_s = now_s + self._refresh_s
        with self._lock:
            if document != self._document:
                self._known.clear()  # forget the verified tokens, because tokens of a revoked key are no longer valid
            self._keys, self._document = keys, document

    def find(self, token: bytes) -> Principal | None:
        """Returns the caller that the token names, or None if the token is not valid."""
        if len(token) > MOST_TOKEN_BYTES or token.count(b".") != 2:
            return None
        digest = digest_of(token)
        known = self._known.get(digest)
        if known is not None:
            if time.time() < known[1]:
                return known[0]
            self._known.pop(digest, None)
        import jwt

        try:
            claims = self._claims(token.decode("ascii"))
            principal = self._principal(claims)
        except (jwt.PyJWTError, InputError, ValueError, TypeError, KeyError):
            return None
        with self._lock:
            while len(self._known) >= MOST_REMEMBERED:
                self._known.pop(next(iter(self._known)), None)
            self._known[digest] = (principal, float(claims["exp"]) + self._issuer.clock_skew_seconds)
        return principal

    def find_expired(self, token: bytes) -> ExpiredToken | None:
        """Returns the caller and the expiry time of a token that was valid; None for any other token."""
        if len(token) > MOST_TOKEN_BYTES or token.count(b".") != 2:
            return None
        import jwt

        try:
            claims = self._claims(token.decode("ascii"), verify_expiry=False)
            expired_s = float(claims["exp"])
            is_over = expired_s + self._issuer.clock_skew_seconds <= time.time()
            return ExpiredToken(self._principal(claims), round(expired_s * 1_000)) if is_over else None
        except (jwt.PyJWTError, InputError, ValueError, TypeError, KeyError, OverflowError):
            return None

    def _claims(self, token: str, *, verify_expiry: bool = True) -> Mapping[str, Any]:
        import jwt

        header = jwt.get_unverified_header(token)
        key = self._keys.get(str(header["kid"]))
        if key is None:
            self._ask_for_unknown()
            raise jwt.InvalidKeyError("unknown key")
        claims: Mapping[str, Any] = jwt.decode(
            token,
            key.jwk.key,
            algorithms=list(key.algorithms),
            issuer=self._issuer.expected_issuer,
            audience=list(self._issuer.expected_audience),
            leeway=self._issuer.clock_skew_seconds,
            options={
                "require": ["exp", "iss", "aud", self._issuer.sub_claim_name],
                "verify_exp": verify_expiry,
            },
        )
        return claims

    def _principal(self, claims: Mapping[str, Any]) -> Principal:
        name = claims[self._issuer.sub_claim_name]
        if not isinstance(name, str) or len(name) > _LONGEST_NAME or not _NAME.match(name):
            raise InputError("no name", self._issuer.sub_claim_name)
        granted = claims.get(self._issuer.scope_claim_name, ())
        scopes = granted.split() if isinstance(granted, str) else [each for each in granted if isinstance(each, str)]
        # this unpacking raises ValueError if no scope matches, or if several scopes match (the right would be
        # ambiguous)
        (scope,) = [match for match in map(_SCOPE.match, scopes) if match]
        return Principal(name, Right(scope[1]), group_prefix(scope[2], self._issuer.scope_claim_name))

    def _ask_for_unknown(self) -> None:
        now_s = self._monotonic_s()
        if now_s - self._asked_for_unknown_s >= UNKNOWN_KEY_EVERY_S:
            self._asked_for_unknown_s = now_s
            self._due_s = 0.0


def _fetch(url: str) -> bytes:
    """Fetches the issuer's key document. Raises OSError, HTTPException or ValueError."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        content = Path(url2pathname(parts.path)).read_bytes()
    else:
        # The proxies in environment variables are only for external hosts, so this fetch uses no proxy. SSL_CERT_FILE
        # applies to this fetch too.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        # IssuerSettings has checked that the scheme is http or https
        with opener.open(url, timeout=FETCH_TIMEOUT_S) as answer:
            content = answer.read(MOST_KEY_BYTES + 1)
    if len(content) > MOST_KEY_BYTES:
        raise ValueError(f"more than {MOST_KEY_BYTES} bytes")
    return bytes(content)


def _keys_in(document: bytes) -> dict[str, _Key]:
    """Returns the usable keys of the document, by key id. Raises ValueError if the document has no usable key."""
    import jwt

    read = json.loads(document)
    listed = read.get("keys") if isinstance(read, dict) else None
    found: dict[str, _Key] = {}
    for each in listed if isinstance(listed, list) else ():
        kind = str(each.get("kty")) if isinstance(each, dict) else ""
        if kind in ALGORITHMS and each.get("kid") and each.get("use", "sig") == "sig":
            algorithms = tuple(name for name in ALGORITHMS[kind] if each.get("alg", name) == name)
            with contextlib.suppress(jwt.PyJWTError, TypeError):  # a key with an unknown curve or form is skipped
                jwk = jwt.PyJWK.from_dict(each)
                if jwk.algorithm_name in algorithms:
                    found[str(each["kid"])] = _Key(jwk, algorithms)
    if not found:
        raise ValueError("it has no key with a kid for RS256, PS256, ES256 or EdDSA")
    return found


def _reason(error: Exception) -> str:
    if isinstance(error, InvalidURL):
        return "its URL cannot be used"  # the error's own text contains a part of the URL, which may contain a password
    if isinstance(error, HTTPException):
        return "its answer is no HTTP"
    if isinstance(error, RecursionError):
        return "its document is nested too deeply"
    return str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error)
