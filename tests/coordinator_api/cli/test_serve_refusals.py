"""`assignor serve` that cannot start: one line that says what, where and what to do, and the exit code of its kind."""

import os
import socket
from pathlib import Path

import pytest

from coordinator_api.settings import Settings
from coordinator_api.store.engine import create_engine, out_of_reach
from coordinator_api.store.store_errors import UnusableDatabase
from tests.coordinator_api.service_process import run_command

USE_ANOTHER_FILE = "is not an SQLite database, and is left as it is: name another file"


@pytest.mark.parametrize(
    "url, line",
    [
        ("nonsense", "database.url is not a URL: expected sqlite:///file or postgresql://host/name"),
        ("mysql://h/n", "database.url: mysql is not supported: expected sqlite:///file or postgresql://host/name"),
        ("sqlite:///garbage", f"database.url: {{here}}/garbage {USE_ANOTHER_FILE}"),
        ("sqlite:///.", "database.url: {here} is a directory: name a file in it"),
        (
            "sqlite:///nowhere/file",
            "database.url: the directory {here}/nowhere does not exist: create it, or name another file",
        ),
        (
            "sqlite:////proc/file",  # which is not writable for root either
            "database.url: the lock file /proc/file.lock beside the database cannot be opened: "
            "No such file or directory: name a file in another directory",
        ),
    ],
)
def test_should_say_which_database_it_cannot_use_and_leave_it_alone(tmp_path: Path, url: str, line: str) -> None:
    garbage = tmp_path / "garbage"
    garbage.write_bytes(bytes(range(256)) * 20)

    done = run_command(tmp_path, "serve", "--port", "0", "--database-url", url)

    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {line.format(here=tmp_path)}\n")
    assert garbage.read_bytes() == bytes(range(256)) * 20
    assert os.listdir(tmp_path) == ["garbage"]


def test_should_say_which_directory_it_cannot_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write everywhere, so the answer of the system is a mock."""
    monkeypatch.setattr("coordinator_api.store.engine.os.access", lambda path, _mode: path != tmp_path)

    with pytest.raises(UnusableDatabase) as refused:
        create_engine(Settings(database_url=f"sqlite:///{tmp_path}/coordinator.sqlite3"))

    assert str(refused.value) == (
        f"database.url: the directory {tmp_path} cannot be written: name a file elsewhere, or change its permissions"
    )


def test_should_name_the_setting_of_a_token_that_nobody_could_send_without_showing_it(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cr3t\ns3cr3t\n")
    (tmp_path / "config.toml").write_text('"auth.token" = "s3cr3t\\n"\n')
    refused = "a token is one line of printable ASCII without spaces around it, and this one"
    for flags, line in (
        (("--auth-token-file", "token"), f"auth.token.file: token: {refused} has inside a line end: remove it there"),
        (("--config", "config.toml"), f"auth.token: {refused} ends with a line end: remove it there"),
    ):
        done = run_command(tmp_path, "serve", "--port", "0", *flags)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {line}\n")


def test_should_name_the_port_that_is_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_command(tmp_path, "serve", "--port", str(port))

    assert (done.returncode, done.stderr) == (
        2,
        f"error: 127.0.0.1:{port} is in use, perhaps by another coordinator: stop that program, "
        "or choose another --port (0 takes a free one)\n",
    )
    assert os.listdir(tmp_path) == [], "it asked for its address first"


def test_should_name_an_address_that_is_not_of_this_machine(tmp_path: Path) -> None:
    done = run_command(tmp_path, "serve", "--host", "192.0.2.1")

    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: 192.0.2.1 is no address of this machine (")
    assert line.endswith("): choose another --host")


@pytest.mark.parametrize(
    "place, shown_place",
    [
        ("postgresql://ann:se@cret@127.0.0.1:1/groups", "postgresql://ann:***@127.0.0.1:1/groups"),
        ("postgresql://127.0.0.1:1/groups?password=secret", "postgresql://127.0.0.1:1/groups?password=***"),
        ("postgresql://ann:secret@h1,h2:1/groups", "postgresql://ann:***@h1,h2:1/groups"),
        ("postgresql+a+b://ann:secret@127.0.0.1:1/groups", "postgresql+a+b://ann:***@127.0.0.1:1/groups"),
    ],
)
def test_should_hide_the_password_wherever_the_url_has_it(place: str, shown_place: str) -> None:
    error = out_of_reach(create_engine(Settings(database_url=place)), OSError("no answer"))

    assert str(error) == f"database.url: {shown_place} cannot be opened: no answer"
