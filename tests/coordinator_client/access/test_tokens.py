"""Tokens as text, when they end, and files of them that change."""

import os
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from assignor.errors import InputError
from coordinator_client.access import tokens
from coordinator_client.access.credentials import Credentials
from coordinator_client.access.principals import Principal, Right
from coordinator_client.access.token_files import TokenFiles, token_in

NOW_MS = 1_800_000_000_000
DIGEST = tokens.digest_of(b"token")
ENTRIES = (
    tokens.TokenEntry(Principal("ops", Right.ADMIN), tokens.digest_of(b"one")),
    tokens.TokenEntry(Principal("pay.eu@1", Right.MEMBER, "payments-"), tokens.digest_of(b"two"), NOW_MS),
)


def test_should_read_what_it_has_written_line_by_line_and_in_one_line() -> None:
    text = "\n".join(map(tokens.format_entry, ENTRIES))

    assert tokens.parse_entries(f"# ours\n\n{text}", "here") == ENTRIES
    assert tokens.parse_entries(text.replace("\n", ";"), "here") == ENTRIES


@pytest.mark.parametrize(
    "line, message",
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
def test_should_say_what_is_wrong_and_not_which_token(line: str, message: str) -> None:
    with pytest.raises(InputError, match="here") as refused:
        tokens.parse_entries(line, "here")

    assert message in str(refused.value)
    assert DIGEST[:-1] not in str(refused.value)


@pytest.mark.parametrize(
    "text, after_ms",
    [("P90D", 90 * 86_400_000), ("PT1H30M", 5_400_000), ("P1DT1S", 86_401_000), ("2027-01-15T08:00:01Z", 1_000)],
)
def test_should_end_at_a_time_or_after_a_duration(text: str, after_ms: int) -> None:
    assert tokens.end_ms(text, NOW_MS, "here") == NOW_MS + after_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "P0D", "90", "2027-01-15T08:00:00Z", "2027-01-16", "P99999DT99999H"])
def test_should_refuse_an_end_that_is_none_or_has_been(text: str) -> None:
    if text == "P99999DT99999H":
        assert tokens.end_ms(text, NOW_MS, "here") > NOW_MS
        return
    with pytest.raises(InputError, match="here"):
        tokens.end_ms(text, NOW_MS, "here")


SECRET = "s3cr3t-0123456789"


@pytest.mark.parametrize(
    "token, why",
    [
        ("", "has no token"),
        (f"{SECRET}\n", "ends with a line end"),
        (f" {SECRET}", "begins with a space"),
        (f"\ufeff{SECRET}", "begins with a byte order mark"),
        (f"{SECRET} {SECRET}  ", "ends with a space"),
        (f"{SECRET}\t{SECRET}", "has inside a tab"),
        (f"{SECRET}\0{SECRET}", "has inside a control character"),
        (f"{SECRET}\u00e4{SECRET}", "has inside a character that is not ASCII"),
        (f"{SECRET}\udcff", "ends with a character that is not ASCII"),
    ],
)
def test_should_refuse_a_token_that_no_header_can_carry_without_showing_it(token: str, why: str) -> None:
    for read in (tokens.checked_token, lambda token, where: tokens.plain_token(where, token)):
        with pytest.raises(InputError) as refused:
            read(token, "auth.token")
        assert str(refused.value).startswith("auth.token: ")
        assert why in str(refused.value)
        assert SECRET not in str(refused.value)


def test_should_take_every_printable_character_inside_a_token() -> None:
    printable = "!" + "".join(map(chr, range(0x20, 0x7F)))
    assert tokens.checked_token(printable, "here") == printable


@pytest.mark.parametrize(
    "content, why",
    [
        (b"\n \n", "has no token"),
        (b"secret\nsecret", "has inside a line end"),
        (b"\xef\xbb\xbfsecret", "begins with a byte order mark"),
        (b"sec\xffret", "it is not text"),
        (b"secret\0", "ends with a control character"),
    ],
)
def test_should_name_the_file_of_a_token_that_cannot_be_used(content: bytes, why: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    files = TokenFiles(Credentials(), lambda setting, sentence: None)
    for read in (lambda: token_in(file, "setting"), lambda: files.add("setting", file, tokens.parse_plain_token)):
        with pytest.raises(InputError) as refused:
            read()
        assert str(refused.value).startswith("setting: ")
        assert str(file) in str(refused.value)
        assert why in str(refused.value)
        assert "secret" not in str(refused.value).replace(str(file), "")


@pytest.mark.parametrize("end", ["", "\n", "\r\n", " \n\n"])
def test_should_take_the_token_of_a_file_without_the_white_space_around_it(end: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(f"secret{end}".encode())
    assert token_in(tmp_path / "token", "setting") == "secret"


def test_should_refuse_a_file_whose_name_no_file_can_have() -> None:
    with pytest.raises(InputError, match="setting: is no name of a file"):
        token_in(Path("a\0b"), "setting")


def test_should_make_tokens_that_nobody_has() -> None:
    made = {tokens.new_token() for _ in range(100)}

    assert len(made) == 100
    assert all(len(token) == 47 and token.startswith("asg_") for token in made)


def test_should_read_a_changed_file_once_it_has_rested(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    reports: list[str] = []
    credentials = Credentials()
    files = TokenFiles(credentials, lambda setting, sentence: reports.append(f"{setting}: {sentence}"))
    files.add("auth.token.file", file, tokens.parse_plain_token)

    file.write_text("half")
    files.reload_changed()
    file.write_text("half-written")
    files.reload_changed()
    assert credentials.find(b"old") is not None
    assert credentials.find(b"half") is None
    files.reload_changed()
    assert [credentials.find(each) is not None for each in (b"old", b"half-written")] == [False, True]
    os.unlink(file)
    for _ in range(5):
        files.reload_changed()
    assert credentials.find(b"half-written") is not None
    assert len(reports) == 2, "each change once"
    assert "stay in force" in reports[1]


def test_should_know_whether_an_admin_for_all_groups_is_left() -> None:
    credentials = Credentials(lambda: NOW_MS)
    credentials.replace("one", ENTRIES)
    assert credentials.has_admin()
    assert not credentials.has_admin(but=ENTRIES[0])
    for others in (
        tokens.TokenEntry(Principal("a", Right.OPERATOR), "1"),
        tokens.TokenEntry(Principal("b", Right.ADMIN, "x"), "2"),
        tokens.TokenEntry(Principal("c", Right.ADMIN), "3", NOW_MS),
    ):
        credentials.replace("another", [others])
        assert not credentials.has_admin(but=ENTRIES[0])
    credentials.replace("another", [tokens.TokenEntry(Principal("d", Right.ADMIN), "4", NOW_MS + 1)])
    assert credentials.has_admin(but=ENTRIES[0])


def test_should_keep_the_tokens_of_two_sources_that_are_replaced_at_the_same_time() -> None:
    """Files are read in a thread, and those of the database on the event loop."""
    credentials = Credentials()
    other = Thread(target=credentials.replace, args=("database", [tokens.plain_token("b", "b" * 40)]))

    def read_while_the_other_begins() -> Iterator[tokens.TokenEntry]:
        other.start()
        other.join(0.1)
        yield tokens.plain_token("a", "a" * 40)

    credentials.replace("file", read_while_the_other_begins())
    other.join()

    assert {source for source, _ in credentials.all_entries()} == {"file", "database"}
    assert not credentials.is_empty
