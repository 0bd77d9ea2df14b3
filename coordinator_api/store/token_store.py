"""Stores the tokens that were created over HTTP. Each token is stored as a hash, with its creator and its creation
time.

Reads and writes use the connections and transactions of `repository`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError

from coordinator_api.store.schema import tokens
from coordinator_api.store.sqlite import Begin
from coordinator_api.store.store_errors import NameTaken, StoreError
from coordinator_client.access.principals import Principal, Right
from coordinator_client.access.tokens import TokenEntry

_LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token in the database. `created_by`: the name of the caller that created the token."""

    entry: TokenEntry
    created_ms: int
    created_by: str

    @property
    def name(self) -> str:
        return self.entry.principal.name


class TokenStore:
    """The stored tokens. Every method raises StoreError when the store cannot be used.

    `reading`: the function of the repository that opens a connection for reading. `writing`: the function of the
    repository that begins a write transaction.
    """

    def __init__(self, reading: Begin, writing: Begin) -> None:
        self._reading = reading
        self._writing = writing

    async def tokens(self) -> list[StoredToken]:
        """All stored tokens, sorted by name."""
        async with self._reading() as connection:
            rows = (await connection.execute(select(tokens).order_by(tokens.c.name))).mappings()
            return [_stored_token(row) for row in rows]

    async def add(self, token: StoredToken) -> None:
        """Store a token with a new name and a new hash. Raises NameTaken, for example if another process has just
        stored the name.
        """
        principal = token.entry.principal
        values = {
            "name": principal.name,
            "right": principal.right.value,
            "group_prefix": principal.group_prefix,
            "digest": token.entry.digest,
            "created_ms": token.created_ms,
            "created_by": token.created_by[:_LONGEST_NAME],
            "expires_ms": token.entry.expires_ms,
        }
        try:
            async with self._writing() as connection:
                await connection.execute(insert(tokens).values(values))
        except StoreError as error:
            if isinstance(error.__cause__, IntegrityError):
                raise NameTaken(f"another coordinator has just created a token {principal.name}") from error
            raise

    async def remove(self, name: str) -> None:
        """Delete the token of this name. The method does nothing if the store does not have the token."""
        async with self._writing() as connection:
            await connection.execute(delete(tokens).where(tokens.c.name == name))


def _stored_token(row: Mapping[Any, Any]) -> StoredToken:
    """Returns the token of a row. Raises StoreError for a right that this release does not know."""
    if row["right"] not in list(Right):
        raise StoreError(
            f"the token {row['name']} in the database (setting database.url) has the right {row['right']!r}, which "
            "this release does not know: run the release that wrote it"
        )
    principal = Principal(row["name"], Right(row["right"]), row["group_prefix"])
    return StoredToken(TokenEntry(principal, row["digest"], row["expires_ms"]), row["created_ms"], row["created_by"])
