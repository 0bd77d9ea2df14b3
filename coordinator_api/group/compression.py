"""Compression of stored data with zstandard.

Equal contents give equal compressed bytes. Decompression never produces more bytes than the caller allows.
Decompression takes time in proportion to its input, even if an attacker wrote the input.
"""

import zstandard

from assignor.errors import InputError

_LEVEL = 3


class TooManyBytes(InputError):
    """The decompressed content is larger than the caller allows."""


def compress(content: bytes) -> bytes:
    """Returns `content` as one zstandard frame. The header of the frame contains the size of `content`."""
    return zstandard.ZstdCompressor(level=_LEVEL, write_content_size=True, write_checksum=True).compress(content)


def decompress(stored: bytes, most: int) -> bytes:
    """Returns the content of a frame that `compress` made. `most`: the largest allowed size in bytes. Raises
    InputError, TooManyBytes.
    """
    try:
        size = zstandard.frame_content_size(stored)
        if size > most:
            raise TooManyBytes(f"{size} bytes are more than {most}")
        if size < 0:  # without a size in the header, the memory for the content is not known before decompression
            raise InputError("the zstandard frame does not say how long it is")
        return zstandard.ZstdDecompressor().decompress(stored, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise InputError(f"not zstandard: {error}") from None
