"""Tokens as text, when they end, and files of them that change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from assignor.access.credentials import Credentials
from assignor.access.principals import Principal, Right
from assignor.access.token_files import TokenFiles
from assignor.access.tokens import (
    TokenEntry,
    digest_of,
    end_ms,
    format_entries,
    new_token,
    parse_entries,
    parse_plain_token,
)
from assignor.errors import InputError

NOW_MS = 1_800_000_000_000
DIGEST = digest_of(b"token")
ENTRIES = (
    TokenEntry(Principal("ops", Right.ADMIN), digest_of(b"one")),
    TokenEntry(Principal("pay.eu@1", Right.MEMBER, "payments-"), digest_of(b"two"), NOW_MS),
)


def test_should_read_what_it_has_written_line_by_line_and_in_one_line() -> None:
    text = format_entries(ENTRIES)

    assert parse_entries(f"# ours\n\n{text}", "here") == ENTRIES
    assert parse_entries(text.strip().replace("\n", ";"), "here") == ENTRIES


@pytest.mark.parametrize(
    "line, said",
    [
        ("ops admin *", "must have the fields"),
        (f"ops owner * {DIGEST}", "the right must be one of reader, member, operator, admin"),
        (f"ops admin x {DIGEST}", "must be a prefix of group ids"),
        (f"-ops admin * {DIGEST}", "must be 1 to 64"),
        (f"ops admin * {DIGEST[:-1]}", "the SHA-256 of the token"),
        (f"ops admin * {DIGEST} tomorrow", "must expire at a time"),
        (f"ops admin * {DIGEST}\nops reader * {DIGEST}", "two tokens of the name ops"),
    ],
)
def test_should_say_what_is_wrong_and_not_which_token(line: str, said: str) -> None:
    with pytest.raises(InputError, match="here") as refused:
        parse_entries(line, "here")

    assert said in str(refused.value)
    assert DIGEST[:-1] not in str(refused.value)


@pytest.mark.parametrize(
    "text, after_ms",
    [("P90D", 90 * 86_400_000), ("PT1H30M", 5_400_000), ("P1DT1S", 86_401_000), ("2027-01-15T08:00:01Z", 1_000)],
)
def test_should_end_at_a_time_or_after_a_duration(text: str, after_ms: int) -> None:
    assert end_ms(text, NOW_MS, "here") == NOW_MS + after_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "P0D", "90", "2027-01-15T08:00:00Z", "2027-01-16", "P99999DT99999H"])
def test_should_refuse_an_end_that_is_none_or_has_been(text: str) -> None:
    if text == "P99999DT99999H":
        assert end_ms(text, NOW_MS, "here") > NOW_MS
        return
    with pytest.raises(InputError, match="here"):
        end_ms(text, NOW_MS, "here")


def test_should_make_tokens_that_nobody_has() -> None:
    made = {new_token() for _ in range(100)}

    assert len(made) == 100
    assert all(len(token) == 47 and token.startswith("asg_") for token in made)


def test_should_read_a_changed_file_once_it_has_rested(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    told: list[str] = []
    credentials = Credentials()
    files = TokenFiles(credentials, lambda setting, sentence: told.append(f"{setting}: {sentence}"))
    files.add("auth.token.file", file, parse_plain_token)

    file.write_text("half")
    files.look()
    file.write_text("half-written")
    files.look()
    assert credentials.find(b"old") is not None
    assert credentials.find(b"half") is None
    files.look()
    assert [credentials.find(each) is not None for each in (b"old", b"half-written")] == [False, True]
    os.unlink(file)
    for _ in range(5):
        files.look()
    assert credentials.find(b"half-written") is not None
    assert len(told) == 2, "each change once"
    assert "stay in force" in told[1]


def test_should_know_whether_an_admin_for_all_groups_is_left() -> None:
    credentials = Credentials(lambda: NOW_MS)
    credentials.replace("one", ENTRIES)
    assert credentials.has_admin()
    assert not credentials.has_admin(but=ENTRIES[0])
    for others in (
        TokenEntry(Principal("a", Right.OPERATOR), "1"),
        TokenEntry(Principal("b", Right.ADMIN, "x"), "2"),
        TokenEntry(Principal("c", Right.ADMIN), "3", NOW_MS),
    ):
        credentials.replace("another", [others])
        assert not credentials.has_admin(but=ENTRIES[0])
    credentials.replace("another", [TokenEntry(Principal("d", Right.ADMIN), "4", NOW_MS + 1)])
    assert credentials.has_admin(but=ENTRIES[0])
