"""Addresses, tokens and refusals, as text."""

import json
from pathlib import Path

import pytest

from assignor.errors import InputError
from coordinator_client import calls


def test_should_read_the_token_anew_for_each_call(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    address = calls.CoordinatorAddress("http://127.0.0.1:8080/", file)
    assert address.token() == "first"

    file.write_text("second")

    assert address.token() == "second"
    assert address.addresses.urls == ("http://127.0.0.1:8080",)


def test_should_take_the_token_of_the_environment_without_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSIGNOR_AUTH_TOKEN", "secret")
    assert calls.read_token(None) == "secret"

    monkeypatch.delenv("ASSIGNOR_AUTH_TOKEN")

    assert calls.CoordinatorAddress("https://coordinator").token() is None


def test_should_name_the_source_of_a_token_no_header_can_carry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3cr3t\ns3cr3t", encoding="utf-8")
    refused = "a token is one line of printable ASCII without spaces around it, and"

    with pytest.raises(InputError, match=f"--token-file: {refused} that of {file} has inside a line end"):
        calls.CoordinatorAddress("http://127.0.0.1:8080", file)
    monkeypatch.setenv("ASSIGNOR_AUTH_TOKEN_FILE", str(file))
    with pytest.raises(InputError, match=f"ASSIGNOR_AUTH_TOKEN_FILE: {refused} that of {file} has inside"):
        calls.CoordinatorAddress("http://127.0.0.1:8080")
    monkeypatch.setenv("ASSIGNOR_AUTH_TOKEN", "s3cr3t\n")
    with pytest.raises(InputError, match=f"ASSIGNOR_AUTH_TOKEN: {refused} this one ends with a line end"):
        calls.CoordinatorAddress("http://127.0.0.1:8080")
    with pytest.raises(InputError, match=f"token: {refused} this one ends with a line end"):
        calls.CallerToken("s3cr3t\n")


def test_should_refuse_a_token_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        calls.CoordinatorAddress("http://127.0.0.1:8080", tmp_path / "none")


@pytest.mark.parametrize(
    "url", ["", "localhost", "127.0.0.1:8080", "ftp://h", "http://", "http://h:abc", "http://h:0", "http://[::1"]
)
def test_should_refuse_what_is_no_url(url: str) -> None:
    with pytest.raises(InputError, match="--coordinator: must be a URL such as http://"):
        calls.CoordinatorAddress(url)


@pytest.mark.parametrize(
    "url",
    ["http://ann:secret@h", "ann:secret@h", "http://h?token=secret", "http://h#secret", "http://a,http://b#secret"],
)
def test_should_refuse_a_url_with_a_secret_and_not_repeat_it(url: str) -> None:
    with pytest.raises(InputError, match="without user, password or parameters: a token is given by") as refused:
        calls.CoordinatorAddress(url)
    assert "secret" not in str(refused.value)


def test_should_take_several_urls_and_each_of_them_once() -> None:
    addresses = calls.addresses_of("http://a:8080/, https://b/behind/,http://a:8080")
    assert addresses.urls == ("http://a:8080", "https://b/behind")
    assert str(addresses) == "http://a:8080,https://b/behind"


def test_should_name_the_one_of_several_urls_that_has_a_secret_by_its_place() -> None:
    with pytest.raises(InputError, match=r"address 2 of 2 must be a URL such as .*, without user, password"):
        calls.CoordinatorAddress("http://a,http://ann:secret@b")


@pytest.mark.parametrize(
    ("text", "place", "shown"),
    [
        ("http://a,b:1", "2 of 2", "b:1"),
        ("http://a,,http://b", "2 of 3", ""),
        ("ftp://a, http://b", "1 of 2", "ftp://a"),
    ],
)
def test_should_name_the_bad_one_of_several_urls(text: str, place: str, shown: str) -> None:
    with pytest.raises(InputError) as refused:
        calls.CoordinatorAddress(text)
    assert str(refused.value) == (
        f"--coordinator: address {place} must be a URL such as http://127.0.0.1:8080, not {shown!r}"
    )


def test_should_name_a_group_whatever_characters_its_id_has() -> None:
    assert calls.group_path("a/b c?") == "/v1/groups/a%2Fb%20c%3F"


@pytest.mark.parametrize(
    ("status", "body", "refusal", "repeated"),
    [
        (
            409,
            {"code": "ILLEGAL_GENERATION", "detail": "over"},
            calls.Refusal(409, "ILLEGAL_GENERATION", "over"),
            False,
        ),
        (
            429,
            {"code": "GROUP_MAX_SIZE_REACHED", "detail": "full"},
            calls.Refusal(429, "GROUP_MAX_SIZE_REACHED", "full"),
            False,
        ),
        (
            429,
            {"code": "THROTTLING_QUOTA_EXCEEDED", "detail": "busy"},
            calls.Refusal(429, "THROTTLING_QUOTA_EXCEEDED", "busy"),
            True,
        ),
        (503, {"code": "COORDINATOR_NOT_AVAILABLE"}, None, True),
        (408, "", calls.Refusal(408, None, '""'), True),
        (404, ["no"], calls.Refusal(404, None, '["no"]'), False),
    ],
)
def test_should_read_what_a_refusal_says(
    status: int, body: object, refusal: calls.Refusal | None, repeated: bool
) -> None:
    read = calls.refusal_of(status, json.dumps(body).encode())

    assert refusal is None or read == refusal
    assert read.may_be_repeated is repeated


def test_should_show_the_beginning_of_an_answer_that_is_not_a_coordinators() -> None:
    assert calls.refusal_of(502, b"<html>" + b"x" * 1_000) == calls.Refusal(502, None, "<html>" + "x" * 294)
    assert calls.refusal_of(502, b"\xff").code is None
    assert calls.refusal_of(502, b"", "Bad Gateway") == calls.Refusal(502, None, "Bad Gateway")


@pytest.mark.parametrize(
    ("status", "retry_after", "seconds"),
    [
        (429, "2", 2.0),
        (429, "100000", 60.0),
        (429, "Sun, 22 Nov 2026 12:00:00 GMT", None),
        (429, "", None),
        (503, "1", None),
    ],
)
def test_should_know_how_long_to_wait_after_an_overload(status: int, retry_after: str, seconds: float | None) -> None:
    assert calls.refusal_of(status, b"{}", retry_after=retry_after).retry_after_s == seconds


def test_should_follow_a_token_file_and_keep_the_last_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    monkeypatch.delenv("ASSIGNOR_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("ASSIGNOR_AUTH_TOKEN_FILE", str(file))
    token = calls.CallerToken(file=calls.token_file_of(None))
    assert (calls.read_token(None), token.current()) == ("first", "first")

    file.write_text("second\n")
    assert token.reread() == "second"
    file.write_text("")
    assert token.reread() == "second"
    file.unlink()
    assert token.reread() == "second"
    file.write_text("third")
    assert token.reread() == "third"
    assert "third" not in repr(token)
