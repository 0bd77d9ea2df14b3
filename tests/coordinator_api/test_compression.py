from __future__ import annotations

import gzip
import time

import pytest
import zstandard

from assignor.errors import InputError
from coordinator_api.compression import TooManyBytes, compress, decompress, gunzip

CONTENT = b'{"format": "rebalance/1"}' * 1_000


def test_what_was_compressed_comes_back_and_the_same_bytes_compress_alike() -> None:
    assert decompress(compress(CONTENT), len(CONTENT)) == CONTENT
    assert compress(CONTENT) == compress(CONTENT)
    assert decompress(compress(b""), 0) == b""


def test_what_an_earlier_release_stored_as_gzip_is_read() -> None:
    assert decompress(gzip.compress(CONTENT), len(CONTENT)) == CONTENT


@pytest.mark.parametrize("pack", [compress, gzip.compress])
def test_no_more_bytes_are_made_than_the_caller_allows(pack: object) -> None:
    assert callable(pack)
    with pytest.raises(TooManyBytes):
        decompress(pack(CONTENT), len(CONTENT) - 1)


def test_a_frame_that_announces_more_than_is_allowed_costs_no_memory() -> None:
    frame = bytearray(zstandard.ZstdCompressor(write_content_size=True).compress(b"x" * 2**17))
    at = frame.index((2**17).to_bytes(4, "little"))
    frame[at : at + 4] = (2**31).to_bytes(4, "little")
    with pytest.raises(TooManyBytes):
        decompress(bytes(frame), 2**20)


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"plain text",
        compress(CONTENT)[:-5],
        compress(CONTENT) + b"x",
        zstandard.ZstdCompressor(write_content_size=False).compress(CONTENT),
        gzip.compress(CONTENT, mtime=0)[:-5],
        gzip.compress(CONTENT, mtime=0) + b"x",
    ],
)
def test_damaged_bytes_are_an_input_error(damaged: bytes) -> None:
    with pytest.raises(InputError):
        decompress(damaged, 10**9)


def test_the_members_of_a_gzip_stream_are_joined() -> None:
    lengths = (0, 1, 1_023, 1_024, 1_025, 70_000)
    members = [bytes([65 + number]) * length for number, length in enumerate(lengths)]
    assert gunzip(b"".join(map(gzip.compress, members)), sum(lengths)) == b"".join(members)


def test_a_stream_of_very_many_empty_members_is_refused_in_a_moment() -> None:
    hostile = gzip.compress(b"") * 400_000
    began = time.process_time()
    with pytest.raises(InputError, match="members"):
        gunzip(hostile, 2**25)
    assert time.process_time() - began < 2  # the whole stream took 34 s
