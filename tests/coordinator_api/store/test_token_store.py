"""Tokens that are created over HTTP: each name once, whichever process was faster."""

from __future__ import annotations

import pytest

from coordinator_api.settings import Settings
from coordinator_api.store.errors import NameTaken
from coordinator_api.store.opening import open_store
from coordinator_api.store.token_store import StoredToken
from coordinator_client.access.principals import Principal, Right
from coordinator_client.access.tokens import TokenEntry, digest_of


def token(name: str, secret: bytes) -> StoredToken:
    return StoredToken(TokenEntry(Principal(name, Right.READER, ""), digest_of(secret), None), 1, "root")


async def test_should_refuse_a_name_that_another_process_has_just_stored(database: Settings) -> None:
    first = token("ops", b"one")
    async with open_store(database) as opened:
        await opened.repository.tokens.add(first)
        with pytest.raises(NameTaken, match="another coordinator has just created a token ops"):
            await opened.repository.tokens.add(token("ops", b"two"))
        assert await opened.repository.tokens.tokens() == [first]
