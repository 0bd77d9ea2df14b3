"""The search for secrets finds those that are there: otherwise it would pass whatever leaks."""

import base64
import gzip
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
import zstandard

from tests.acceptance.secret_search import CommandLines, Secrets, SecretSearch
from tests.known import known

SECRET = "p+a/ss word-0123456789"


def searched(directory: Path, *, except_for: tuple[Path, ...] = ()) -> SecretSearch:
    search = SecretSearch({"a password": SECRET})
    search.in_directory(directory, except_for)
    return search


WRITTEN = {
    "as it is": SECRET.encode(),
    "quoted for a URL": quote(SECRET, safe="").encode(),
    "in hexadecimal": SECRET.encode().hex().encode(),
    "in UTF-16": SECRET.encode("utf-16-le"),
    **{f"in base64 after {before}": base64.b64encode(b"x" * before + SECRET.encode() + b"yz") for before in range(4)},
    **{f"URL-safe after {before}": base64.urlsafe_b64encode(b"x" * before + SECRET.encode()) for before in range(3)},
    "in gzip": gzip.compress(SECRET.encode()),
    "in zstandard": zstandard.compress(SECRET.encode()),
    "in all of them": gzip.compress(b"around" + zstandard.compress(b"around" + base64.b64encode(SECRET.encode()))),
}


@pytest.mark.parametrize("form", WRITTEN)
@pytest.mark.parametrize("around", [bytes, lambda written: b"before" + written + b"after"], ids=["alone", "inside"])
def test_should_find_a_secret_however_it_is_written(
    tmp_path: Path, form: str, around: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "file").write_bytes(around(WRITTEN[form]))

    (found,) = {line.partition(":")[0].partition(",")[0] for line in searched(tmp_path).found}
    assert found == "a password"


def test_should_find_a_packed_secret_that_a_database_has_in_pieces(tmp_path: Path) -> None:
    noise = b"".join(b"%d" % (number * 7919) for number in range(20_000))
    with sqlite3.connect(tmp_path / "database") as database:
        database.execute("CREATE TABLE documents (document BLOB)")
        database.execute("INSERT INTO documents VALUES (?)", (zstandard.compress(noise + SECRET.encode()),))
    database.close()

    assert any("table documents, in zstandard" in line for line in searched(tmp_path).found)


def test_should_find_a_secret_in_the_name_of_a_file(tmp_path: Path) -> None:
    (tmp_path / SECRET.replace("/", "_")).touch()
    search = SecretSearch({"a password": SECRET.replace("/", "_")})
    search.in_directory(tmp_path)

    assert len(search.found) == 1


def test_should_find_nothing_where_nothing_is_and_not_look_into_the_files_that_hold_secrets(tmp_path: Path) -> None:
    secrets = Secrets()
    value = secrets.make("a password")
    held = secrets.write(tmp_path / "held", value)
    (tmp_path / "file").write_text(value[:-1])
    search = SecretSearch(secrets.values)
    search.in_directory(tmp_path, secrets.files)

    assert held.read_text() == value
    assert (search.found, search.files) == (set(), 1)


def test_should_find_a_secret_on_the_command_line_of_a_process() -> None:
    secrets = Secrets()
    value = secrets.make("a password")
    program = "import sys; sys.stdout.write('.'); sys.stdout.flush(); sys.stdin.read()"
    with CommandLines() as commands:
        process = subprocess.Popen(
            [sys.executable, "-c", program, f"--password={value}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert known(process.stdout).read(1) == b"."
    process.communicate()
    search = SecretSearch(secrets.values)
    commands.search(search)

    assert search.found == {f"a password, as it is: the command line of process {process.pid}"}
