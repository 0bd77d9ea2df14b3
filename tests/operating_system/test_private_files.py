"""New files belong to their owner alone, whatever the umask is. Users that may write a file may open its lock."""

import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from operating_system import private_files

UMASKS = (0o000, 0o022, 0o077)

NOBODY = 65_534


@pytest.fixture(params=UMASKS, ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A directory that every user may look into; those of pytest are closed."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        if not all(parent.stat().st_mode & 0o001 for parent in directory.parents):
            pytest.skip("the directory for temporary files is closed to others")
        yield directory


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_should_make_files_and_directories_for_their_owner_alone(tmp_path: Path, umask: int) -> None:
    private_files.make_private_directory(tmp_path / "a" / "b")
    private_files.create_private_file(tmp_path / "empty")
    with open(tmp_path / "opened", "ab", opener=private_files.private_opener):
        pass
    os.close(private_files.open_lock(tmp_path / "lock", tmp_path / "guarded"))

    assert [mode(tmp_path / name) for name in ("a", "a/b")] == [0o700, 0o700]
    assert [mode(tmp_path / name) for name in ("empty", "opened", "lock")] == [0o600] * 3


def test_should_leave_what_is_there_as_it_is(tmp_path: Path) -> None:
    there, directory = tmp_path / "there", tmp_path / "directory"
    there.write_text("kept")
    there.chmod(0o644)
    directory.mkdir()
    directory.chmod(0o755)

    private_files.create_private_file(there)
    private_files.make_private_directory(directory)

    assert (there.read_text(), mode(there), mode(directory)) == ("kept", 0o644, 0o755)


def test_should_not_follow_a_link_that_waits_where_a_file_will_be(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)

    private_files.create_private_file(link)

    assert not target.exists()


@pytest.mark.parametrize(
    "guarded, before, after",
    [(0o600, 0o644, 0o600), (0o644, 0o666, 0o600), (0o660, 0o664, 0o660), (0o666, 0o666, 0o666)],
)
def test_should_give_a_lock_to_writers_of_its_file_only(tmp_path: Path, guarded: int, before: int, after: int) -> None:
    file, lock = tmp_path / "file", tmp_path / "lock"
    for path, given in ((file, guarded), (lock, before)):
        path.touch()
        path.chmod(given)

    os.close(private_files.open_lock(lock, file))

    assert mode(lock) == after


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_should_keep_other_users_from_holding_a_lock(reachable: Path) -> None:
    lock = reachable / "lock"
    lock.touch()
    lock.chmod(0o644)  # of an earlier release: whoever may read a file may lock it

    assert taken_by_nobody(lock) == 0

    descriptor = private_files.open_lock(lock, reachable / "database")
    os.close(descriptor)

    assert taken_by_nobody(lock) == errno.EACCES


def taken_by_nobody(lock: Path) -> int:
    """0 when another user of the machine can hold the lock, or why not."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            fcntl.flock(os.open(lock, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 255)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_should_say_access_warning_what_others_can_open(reachable: Path) -> None:
    file, directory = reachable / "file", reachable / "directory"
    file.touch()
    file.chmod(0o644)
    directory.mkdir()
    directory.chmod(0o755)

    warning = "can be opened by other users of this machine"
    assert private_files.access_warning(file) == f"{file} {warning}: chmod 600 {file}"
    assert private_files.access_warning(directory) == f"{directory} {warning}: chmod 700 {directory}"
    file.chmod(0o600)
    assert private_files.access_warning(file) is None
    assert private_files.access_warning(reachable / "nothing") is None


def test_should_say_nothing_of_what_a_closed_directory_is_around(reachable: Path) -> None:
    file = reachable / "closed" / "file"
    file.parent.mkdir(mode=0o700)
    file.touch()
    file.chmod(0o644)

    assert private_files.access_warning(file) is None


def test_should_warn_once_in_a_process(reachable: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = reachable / "file"
    file.touch()
    file.chmod(0o640)

    private_files.warn_if_readable_by_others(file)
    private_files.warn_if_readable_by_others(file)

    assert [record.getMessage() for record in caplog.records] == [private_files.access_warning(file)]
