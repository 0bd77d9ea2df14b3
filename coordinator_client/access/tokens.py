"""A service stores an entry for each of its tokens: the SHA-256 of the token, a name, a right, a group prefix and an
expiry time.

Rules: a service stores only the hash of a token, not the token. A generated token has 256 random bits. Nobody can find
these bits from their hash by trying values, so one round of SHA-256 is enough.

A text of tokens has one entry on each line. An entry has these fields, with spaces between them:

- `payments-eu`: the name of the token.
- `member`: the right that the token gives.
- `payments-*`: the groups for which the token has this right. `*` stands for every group.
- `9f86d081884c7d659a2feaa0c55ad015a3bf4f…`: the SHA-256 of the token.
- `2027-01-31T00:00:00Z`: the expiry time. An entry without this field never expires.

Kafka's SCRAM also stores hashes (`ScramCredential`). SCRAM needs a salt and many rounds of hashing, because
passwords of people can be guessed.
"""

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime

from assignor.errors import InputError
from coordinator_client.access.principals import Principal, Right

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}\Z", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}\Z", re.ASCII)
_GROUPS = re.compile(r"[A-Za-z0-9._-]{0,248}\*\Z", re.ASCII)
_FIELDS = "name right groups sha256 [expires]"
_DURATION = re.compile(r"P(?=.)(?:(\d{1,5})D)?(?:T(?=.)(?:(\d{1,5})H)?(?:(\d{1,5})M)?(?:(\d{1,5})S)?)?\Z", re.ASCII)
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1_000)
_LATEST_MS = 221_845_392_000_000
_RANDOM_BYTES = 32

_NOT_OF_A_TOKEN = re.compile(r"\A +| +\Z|[^\x20-\x7e]+")
_KINDS = {" ": "a space", "\t": "a tab", "\n": "a line end", "\r": "a line end", "\ufeff": "a byte order mark"}

TOKEN_PREFIX = "asg_"  # noqa: S105 (this is the beginning of every token)
"""All generated tokens begin with this prefix. Secret scanners find tokens by the prefix."""


@dataclass(frozen=True, slots=True)
class TokenEntry:
    """One token. `digest`: the SHA-256 of the token, as hexadecimal digits. `expires_ms`: None if the token never
    expires.
    """

    principal: Principal
    digest: str
    expires_ms: int | None = None

    def is_valid_at(self, now_ms: int) -> bool:
        return self.expires_ms is None or now_ms < self.expires_ms


def digest_of(token: bytes) -> str:
    """Returns the SHA-256 of the token. A service stores only this hash. `token`: the token's bytes as a caller sends
    them.
    """
    return hashlib.sha256(token).hexdigest()


def new_token() -> str:
    """Returns a new token: 256 random bits, in characters that need no escaping in headers, URLs or shells."""
    return TOKEN_PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)


def checked_token(token: str, where: str, which: str = "this one") -> str:
    """Checks a token and returns it.

    A token is printable ASCII. A token must not begin or end with a space, because HTTP removes spaces at the ends of a
    header. `where`: the option, variable or file that contains the token. Raises InputError; its message shows no part
    of the token.
    """
    if not token:
        raise InputError("has no token", where)
    found = _NOT_OF_A_TOKEN.search(token)
    if found is None:
        return token
    place = "begins with" if found.start() == 0 else "ends with" if found.end() == len(token) else "has inside"
    letter = found[0][0]
    kind = _KINDS.get(letter) or ("a control character" if letter.isascii() else "a character that is not ASCII")
    raise InputError(
        f"a token is one line of printable ASCII without spaces around it, and {which} {place} {kind}: remove it there",
        where,
    )


def plain_token(source: str, token: str) -> TokenEntry:
    """Makes the entry for a token that is the value of a setting. The token has the right `admin`, for all groups.
    `source`: the name of the setting, which is also the name of the principal.

    Raises InputError.
    """
    return _entry_of_admin(source, checked_token(token, source))


def parse_plain_token(text: str, where: str) -> tuple[TokenEntry, ...]:
    """Makes the entry for a token from the content of a file that has only this token. Returns an empty tuple if the
    file has no token. White space around the token is removed. `where`: the name of the text in error messages, in the
    form `SETTING: FILE`. Raises InputError.
    """
    token = text.strip()
    return (_entry_of_admin(where.partition(":")[0], checked_token(token, where)),) if token else ()


def _entry_of_admin(source: str, token: str) -> TokenEntry:
    return TokenEntry(Principal(source, Right.ADMIN), digest_of(token.encode("ascii")))


def right_of(text: str, where: str) -> Right:
    """Parses a right. Raises InputError."""
    if text not in list(Right):
        raise InputError(f"the right must be one of {', '.join(Right)}, not {text!r}", where)
    return Right(text)


def check_name(name: str, where: str) -> str:
    """Checks the name and returns it. Raises InputError if a log or a table could not show the name unchanged."""
    if not _NAME.match(name):
        raise InputError(
            "must be 1 to 64 letters, digits, dots, hyphens, underscores or @, and begin with one of the first two",
            where,
        )
    return name


def group_prefix(pattern: str, where: str) -> str:
    """Converts `payments-*` to the prefix `payments-`, and `*` to the empty prefix. Raises InputError."""
    if not _GROUPS.match(pattern):
        raise InputError(f"must be a prefix of group ids with * behind it, or * for all groups, not {pattern!r}", where)
    return pattern[:-1]


def group_pattern(prefix: str) -> str:
    """Converts the prefix `payments-` to `payments-*`."""
    return f"{prefix}*"


def parse_entries(text: str, where: str) -> tuple[TokenEntry, ...]:
    """Parses a text of token entries. Returns the entries in the order of the text. If the text has only one line,
    semicolons separate the entries.

    `where`: the name of the text for error messages. Raises InputError; its message never shows a digest.
    """
    entries: list[TokenEntry] = []
    lines = text.splitlines() if "\n" in text.strip() else text.strip().split(";")
    for number, line in enumerate(lines, start=1):
        fields = line.partition("#")[0].split()
        if fields:
            entries.append(_entry(fields, f"{where}, line {number}"))
    names = [entry.principal.name for entry in entries]
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise InputError(f"has two tokens of the name {twice}", where)
    return tuple(entries)


def format_entry(entry: TokenEntry) -> str:
    """Returns one line in the format that `parse_entries` reads."""
    principal = entry.principal
    fields = [principal.name, principal.right.value, group_pattern(principal.group_prefix), entry.digest]
    if entry.expires_ms is not None:
        fields.append(instant_text(entry.expires_ms))
    return "  ".join(fields)


def instant_text(at_ms: int) -> str:
    """Formats a time as RFC 3339 in UTC, without fractions of a second."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _entry(fields: list[str], where: str) -> TokenEntry:
    if not 4 <= len(fields) <= 5:
        raise InputError(f"must have the fields: {_FIELDS}", where)
    name, right, groups, digest, *expires = fields
    if not _DIGEST.match(digest):
        raise InputError("the fourth field must be the SHA-256 of the token: 64 lower-case hexadecimal digits", where)
    principal = Principal(check_name(name, where), right_of(right, where), group_prefix(groups, where))
    return TokenEntry(principal, digest, instant_ms(expires[0], where) if expires else None)


def end_ms(text: str, now_ms: int, where: str) -> int:
    """Parses an expiry time to milliseconds since 1970. The text is a time, or a duration from now. Raises InputError
    if the text is invalid or the time is past.
    """
    duration = _DURATION.match(text)
    if duration is not None:
        parts = zip(duration.groups(), _UNITS_MS, strict=True)
        at_ms = now_ms + sum(int(count) * unit_ms for count, unit_ms in parts if count is not None)
    else:
        at_ms = instant_ms(text, where)
    if not now_ms < at_ms < _LATEST_MS:
        raise InputError(f"must be in the future, and before the year 9000, not {text!r}", where)
    return at_ms


def instant_ms(text: str, where: str) -> int:
    """Parses an RFC 3339 time to milliseconds since 1970. Raises InputError."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise InputError(
            f"must expire at a time such as 2027-01-31T00:00:00Z, or after a duration such as P90D, not {text!r}", where
        ) from None
    return int(at.timestamp() * 1000)
