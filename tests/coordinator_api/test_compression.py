from __future__ import annotations

import pytest
import zstandard

from assignor.errors import InputError
from coordinator_api.compression import TooManyBytes, compress, decompress

CONTENT = b'{"format": "rebalance/1"}' * 1_000


def test_what_was_compressed_comes_back_and_the_same_bytes_compress_alike() -> None:
    assert decompress(compress(CONTENT), len(CONTENT)) == CONTENT
    assert compress(CONTENT) == compress(CONTENT)
    assert decompress(compress(b""), 0) == b""


def test_no_more_bytes_are_made_than_the_caller_allows() -> None:
    with pytest.raises(TooManyBytes):
        decompress(compress(CONTENT), len(CONTENT) - 1)


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
    ],
)
def test_damaged_bytes_are_an_input_error(damaged: bytes) -> None:
    with pytest.raises(InputError):
        decompress(damaged, 10**9)
