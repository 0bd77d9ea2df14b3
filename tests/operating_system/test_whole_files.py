"""A file appears as a whole or not at all, and takes the name of nothing but a file."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from assignor.errors import InputError
from operating_system.whole_files import input_errors, whole_file
from tests.checkout import RECORDINGS
from tests.program import assignor


def test_should_keep_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_text("old")
    with pytest.raises(ZeroDivisionError), whole_file(file) as stream:
        stream.write(b"%d" % (1 // 0))
    assert (file.read_text(), list(tmp_path.iterdir())) == ("old", [file])
    with whole_file(file) as stream:
        stream.write(b"new")
        assert file.read_text() == "old"
    assert (file.read_text(), list(tmp_path.iterdir())) == ("new", [file])


def test_should_replace_the_file_that_a_link_leads_to(tmp_path: Path) -> None:
    file, link = tmp_path / "out", tmp_path / "link"
    link.symlink_to(file)
    with whole_file(link) as stream:
        stream.write(b"new")
    assert link.is_symlink()
    assert file.read_text() == "new"


@pytest.mark.parametrize(
    "command, lines",
    [
        (("assign", str(RECORDINGS / "smoke.jsonl.gz"), "--output"), 4),
        (("what-if", str(RECORDINGS / "smoke.jsonl.gz"), "--set", "num.standby.replicas=2", "--write"), 1),
    ],
)
def test_should_write_to_what_is_no_file_and_leave_it(tmp_path: Path, command: tuple[str, ...], lines: int) -> None:
    """As root, `--output /dev/null` once took the device away from the whole machine."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_text)
        assert assignor(*command, str(pipe)).returncode == 0
        assert len(read.result().splitlines()) == lines
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize(
    "command",
    [
        ("backup", "{}", "--force", "--database-url", "sqlite:///{}.sqlite3"),
        ("tokens", "create", "ada", "--right", "admin", "--file", "{}"),
    ],
)
def test_should_refuse_to_put_a_secret_where_no_file_is(tmp_path: Path, command: tuple[str, ...]) -> None:
    pipe = tmp_path / "pipe"
    assignor("migrate", "--database-url", f"sqlite:///{pipe}.sqlite3")
    os.symlink("/dev/null", pipe)
    ended = assignor(*(word.format(pipe) for word in command))
    assert (ended.returncode, "is no file" in ended.stderr) == (2, True), ended.stderr
    assert pipe.is_symlink()


@pytest.mark.parametrize(
    "error, message",
    [
        (FileNotFoundError(2, "No such file"), "F: cannot be read: No such file"),
        (ValueError("embedded null byte"), "F: cannot be read: embedded null byte"),
        (InputError("is no JSON", "line 3"), "line 3: is no JSON"),
    ],
)
def test_should_make_errors_of_a_file_input_errors_and_leave_those_that_are(error: Exception, message: str) -> None:
    with pytest.raises(InputError) as raised, input_errors("cannot be read", "F", ValueError):
        raise error
    assert str(raised.value) == message
