"""Advice for errors of the operating system, and the limit of open files."""

import errno
import os
import resource
import subprocess
import sys

import pytest

from operating_system.processes import advice_of, with_advice
from tests.known import known


@pytest.mark.parametrize(
    "error, advice",
    [
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), "ulimit -n"),
        ("IO error: While open a file for lock: state/LOCK: Too many open files", "ulimit -n"),
        ("IO error: No space left on device: state/000012.sst", "free space on this disk"),
        (PermissionError(errno.EACCES, os.strerror(errno.EACCES)), "the right to read and write there"),
        ("[Errno 30] Read-only file system", "mount this file system for writing"),
    ],
)
def test_should_advise_what_helps_against_the_systems_own_error(error: OSError | str, advice: str) -> None:
    found = known(advice_of(error))
    assert advice in found
    assert with_advice(error) == f"{error}; {found}"


@pytest.mark.parametrize("error", [OSError("no number"), FileNotFoundError(errno.ENOENT, "gone"), "Corruption: block"])
def test_should_advise_nothing_about_other_errors(error: OSError | str) -> None:
    assert advice_of(error) is None
    assert with_advice(error) == str(error)


def test_should_raise_the_soft_limit_of_open_files_to_the_hard_one() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    program = (
        "import resource\n"
        "from operating_system.processes import raise_open_file_limit\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (64, {hard}))\n"
        "print(raise_open_file_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(hard)] * 3
