"""Who may call one of our services. What the services make of it is tested with each of them."""

import pytest

from coordinator_client.access.principals import ANYBODY, AccessRefusal, Principal, Right, caller, is_loopback

OWNER = Principal("owner", Right.READER)


def owner_of(token: bytes) -> Principal | None:
    return OWNER if token == b"a-token" else None


@pytest.mark.parametrize(
    "host, loopback",
    [
        ("localhost", True),
        ("LOCALHOST", True),
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("", False),
        ("0.0.0.0", False),
        ("localhost.example.org", False),
    ],
)
def test_should_know_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    "authorization, passes",
    [
        ("Bearer a-token", True),
        ("bearer  a-token ", True),
        ("Bearer a-toke", False),
        ("Basic a-token", False),
        ("", False),
    ],
)
def test_should_let_pass_who_has_the_token(authorization: str, passes: bool) -> None:
    found = caller(owner_of, {"authorization": authorization, "host": "example.org"})

    assert (found == OWNER) is passes
    assert passes or (
        isinstance(found, AccessRefusal) and (found.challenge or "").startswith('Bearer realm="assignor"')
    )


@pytest.mark.parametrize(
    "headers, passes",
    [
        ({}, True),
        ({"host": "127.0.0.1:80"}, True),
        ({"host": "[::1]:80", "origin": "http://localhost:3000"}, True),
        ({"host": "attacker.example"}, False),
        ({"host": "localhost", "origin": "http://attacker.example"}, False),
        ({"host": "localhost", "origin": "null"}, False),
        ({"host": "[::1"}, False),
    ],
)
def test_should_let_pass_programs_of_this_machine_when_there_is_no_token(headers: dict[str, str], passes: bool) -> None:
    found = caller(None, headers)

    assert (found == ANYBODY) is passes
    assert passes or (isinstance(found, AccessRefusal) and found.challenge is None)
