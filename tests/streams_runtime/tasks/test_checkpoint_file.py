"""A checkpoint file is whole or not there: through kills, full disks and bytes that somebody else wrote."""

import logging
import os
import random
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.errors import DecodeError, IllegalStateError
from assignor.java.hash_map import JavaHashMap
from assignor.types import TopicPartition
from streams_runtime.common.errors import ProcessorStateError
from streams_runtime.tasks.checkpoint_file import (
    OFFSET_UNKNOWN,
    CheckpointFile,
    format_checkpoint,
    next_offsets,
    parse_checkpoint,
)
from streams_runtime.tasks.file_system import FileSystem
from tests.assignor.protocol.codec_vectors import Line, line_id, lines_of
from tests.known import known

P0 = TopicPartition("app-counts-changelog", 0)
P1 = TopicPartition("app-totals-changelog", 0)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_should_read_nothing_when_there_is_no_file(tmp_path: Path) -> None:
    assert CheckpointFile(tmp_path / "not there").load() == {}


def test_should_remove_the_file_when_there_are_no_offsets(tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path)
    file.write({P0: 7})
    file.write({})
    assert names(tmp_path) == []
    file.write({})  # and again, when there is none
    assert names(tmp_path) == []


def test_should_refuse_a_negative_offset_and_leave_the_file_as_it_was(tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path)
    file.write({P0: 7})
    with pytest.raises(IllegalStateError, match="negative offset"):
        file.write({P0: -1})
    assert file.read() == {P0: 7}
    assert names(tmp_path) == [".checkpoint"]


def test_should_report_the_next_offset_and_zero_when_it_is_unknown() -> None:
    assert next_offsets({P0: 7, P1: OFFSET_UNKNOWN}) == {P0: 8, P1: 0}


def test_should_sync_the_file_before_and_the_directory_after_renaming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    real_fsync, real_replace = os.fsync, Path.replace

    def fsync(descriptor: int) -> None:
        steps.append(f"sync {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name}")
        real_fsync(descriptor)

    def replace(self: Path, target: Path) -> Path:
        steps.append(f"rename {self.name} to {target.name}")
        assert self.parent == target.parent == tmp_path
        return real_replace(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    CheckpointFile(tmp_path).write({P0: 7})

    assert steps == ["sync .checkpoint.tmp", "rename .checkpoint.tmp to .checkpoint", f"sync {tmp_path.name}"]


def test_should_sync_the_directory_after_a_file_is_deleted_or_set_aside(tmp_path: Path) -> None:
    synced: list[list[str]] = []

    class Files(FileSystem):
        def sync_directory(self, directory: Path) -> None:
            synced.append(self.names(directory))

    file = CheckpointFile(tmp_path, Files())
    file.path.write_bytes(b"broken")
    file.load()
    file.write({P0: 7})
    synced.clear()
    file.delete()
    file.path.write_bytes(b"broken")
    file.load()
    assert [sorted(names) for names in synced] == [
        [".checkpoint.corrupt-1"],
        [".checkpoint.corrupt-1", ".checkpoint.corrupt-2"],
    ]


@pytest.mark.parametrize("content", [b"", b"0\n", b"1\n0\n", b"0\n2\ntopic 0 1\n", b"0\n1\ntopic 0 x\n", b"\xff\x00"])
def test_should_set_a_broken_file_aside(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    file = CheckpointFile(tmp_path)
    file.path.write_bytes(content)
    with pytest.raises(DecodeError):
        file.read()
    with caplog.at_level(logging.WARNING):
        assert file.load() is None

    assert names(tmp_path) == [".checkpoint.corrupt-1"]
    assert (tmp_path / ".checkpoint.corrupt-1").read_bytes() == content
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(file.path) in caplog.text
    assert ".checkpoint.corrupt-1" in caplog.text


def test_should_number_broken_files(tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path)
    for number in (1, 2, 3):
        file.path.write_text(f"broken {number}")
        assert file.load() is None
        assert names(tmp_path)[-1] == f".checkpoint.corrupt-{number}"
    assert (tmp_path / ".checkpoint.corrupt-2").read_text() == "broken 2"


def test_should_name_the_path_and_keep_the_old_file_when_the_disk_is_full(tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path)
    file.write({P0: 7})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))  # the kernel refuses to write more than this into a file
    try:
        with pytest.raises(ProcessorStateError) as raised:
            file.write({TopicPartition(f"app-store{i}-changelog", 0): i for i in range(1000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert str(tmp_path / ".checkpoint") in str(raised.value)
    assert file.read() == {P0: 7}


@pytest.mark.parametrize("operation", ["read", "write", "delete"])
def test_should_name_the_path_when_it_is_not_permitted(tmp_path: Path, operation: str) -> None:
    directory = tmp_path / "0_0"
    directory.mkdir()
    file = CheckpointFile(directory)
    file.write({P0: 7})
    directory.chmod(0)
    me = os.geteuid()
    if me == 0:  # nothing is forbidden to root
        os.seteuid(65_534)
    try:
        with pytest.raises(ProcessorStateError) as raised:
            {"read": file.load, "write": lambda: file.write({P0: 8}), "delete": file.delete}[operation]()
    finally:
        os.seteuid(me)
        directory.chmod(0o700)

    assert str(directory / ".checkpoint") in str(raised.value)
    assert "Permission denied" in str(raised.value)
    assert file.read() == {P0: 7}


_WRITES_FOR_EVER = """
import itertools, sys
from pathlib import Path
from assignor.types import TopicPartition
from streams_runtime.tasks.checkpoint_file import CheckpointFile
file = CheckpointFile(Path(sys.argv[1]))
for number in itertools.count():
    file.write({TopicPartition("app-changelog", p): number for p in range(200)})
    if number == 0:
        print("ready", flush=True)
"""


def test_should_never_leave_a_broken_file_when_killed_while_writing(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    file = CheckpointFile(tmp_path)
    for _ in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", _WRITES_FOR_EVER, str(tmp_path)], stdout=subprocess.PIPE
        ) as process:
            assert known(process.stdout).readline() == b"ready\n"
            time.sleep(chance.uniform(0, 0.03))  # the moment of the kill is what this test draws
            process.send_signal(signal.SIGKILL)
        offsets = file.read()

        assert process.returncode == -signal.SIGKILL
        assert set(offsets) == {TopicPartition("app-changelog", p) for p in range(200)}, f"seed {seed}"
        assert len(set(offsets.values())) == 1, f"seed {seed}: two files in one"


def lines(operation: str, *, failing: bool) -> list[Line]:
    return [line for line in lines_of(operation) if ("error" in line["output"]) == failing]


def offsets_of(line: Line) -> dict[TopicPartition, int]:
    entries = [(TopicPartition(topic, partition), offset) for topic, partition, offset in line["input"]["entries"]]
    return dict(JavaHashMap(entries).items()) if line["input"]["map"] == "hash" else dict(entries)


@pytest.mark.parametrize("line", lines("checkpoint_encode", failing=False), ids=line_id)
def test_should_write_kafkas_text(line: Line) -> None:
    assert format_checkpoint(offsets_of(line)) == line["output"]["text"]


@pytest.mark.parametrize("line", lines("checkpoint_encode", failing=True), ids=line_id)
def test_should_refuse_a_negative_offset(line: Line) -> None:
    with pytest.raises(IllegalStateError) as raised:
        format_checkpoint(offsets_of(line))

    assert raised.value.as_recorded() == line["output"]["error"]


@pytest.mark.parametrize("line", lines("checkpoint_decode", failing=False), ids=line_id)
def test_should_read_kafkas_entries(line: Line) -> None:
    entries = {TopicPartition(topic, partition): offset for topic, partition, offset in line["output"]["entries"]}

    assert parse_checkpoint(line["input"]["text"].encode()) == entries


@pytest.mark.parametrize("line", lines("checkpoint_decode", failing=True), ids=line_id)
def test_should_fail_with_kafkas_message(line: Line) -> None:
    with pytest.raises(DecodeError) as raised:
        parse_checkpoint(line["input"]["text"].encode())

    assert raised.value.reason == line["output"]["error"].partition(": ")[2]


@pytest.mark.parametrize(
    "data, reason, offset",
    [
        (b"", "File ended prematurely.", 0),
        (b"0\n", "File ended prematurely.", 2),
        (b"0 \n", 'For input string: "0 "', 0),
        (b"0\n1\ntopic 0 x\n", 'For input string: "x"', 4),
        (b"0\n1\n topic 0\n", 'For input string: "topic"', 4),
        (b"0\n1\ntopic 2147483648 1\n", 'For input string: "2147483648"', 4),
        (b"0\n1\ntopic 0 9223372036854775808\n", 'For input string: "9223372036854775808"', 4),
        (b"0\n1\ntopic 0 " + b"9" * 30 + b"\n", 'For input string: "' + "9" * 30 + '"', 4),
        (b"0\n2\nt 0 5\n", "Expected 2 entries but found only 1", 10),
        ("0\n2\n\u00e9 0 5\nt 0\n".encode(), "Malformed line in offset checkpoint file: 't 0'.", 11),
        (b"0\n0\n\xff", "not UTF-8", 4),
    ],
)
def test_should_say_what_is_wrong_and_in_which_line(data: bytes, reason: str, offset: int) -> None:
    with pytest.raises(DecodeError) as raised:
        parse_checkpoint(data)

    assert (raised.value.reason, raised.value.offset) == (reason, offset)


@pytest.mark.parametrize(
    "data, offsets",
    [
        (b"0\n1\ntopic 3 5", {TopicPartition("topic", 3): 5}),
        (b"0\r\n1\r\ntopic 3 5\r\n", {TopicPartition("topic", 3): 5}),
        (b"0\r1\rtopic 3 5\r", {TopicPartition("topic", 3): 5}),
        (b"0\n1\ntopic \t 3 +5 \n", {TopicPartition("topic", 3): 5}),
        (b"0\n2\ntopic 3 -1\ntopic 4 -4\n", {TopicPartition("topic", 4): OFFSET_UNKNOWN}),
    ],
)
def test_should_read_lines_and_columns_as_java_does(data: bytes, offsets: dict[TopicPartition, int]) -> None:
    assert parse_checkpoint(data) == offsets


PARTITIONS = st.builds(
    TopicPartition, st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True), st.integers(0, 2**31 - 1)
)


@given(st.dictionaries(PARTITIONS, st.integers(0, 2**63 - 1) | st.just(OFFSET_UNKNOWN), min_size=1))
def test_should_read_back_what_was_written(offsets: dict[TopicPartition, int]) -> None:
    assert parse_checkpoint(known(format_checkpoint(offsets)).encode()) == offsets


@given(st.binary() | st.from_regex(rb"0\n[0-9]\n([ a-z0-9-]*\n){0,4}", fullmatch=True))
def test_should_read_or_raise_decode_error_whatever_the_bytes(data: bytes) -> None:
    with suppress(DecodeError):
        assert all(offset >= 0 or offset == OFFSET_UNKNOWN for offset in parse_checkpoint(data).values())
