"""How what is stored is compressed: zstandard.

Rules: the same bytes give the same compressed bytes. Reading never makes more bytes than the caller allows, and takes
time in proportion to what it is given, whoever wrote it.
"""

from __future__ import annotations

import zstandard

from assignor.errors import InputError

_LEVEL = 3


class TooManyBytes(InputError):
    """Decompressed, there are more bytes than the caller allows."""


def compress(content: bytes) -> bytes:
    """One zstandard frame, which begins with the size of `content`."""
    return zstandard.ZstdCompressor(level=_LEVEL, write_content_size=True, write_checksum=True).compress(content)


def decompress(stored: bytes, most: int) -> bytes:
    """What `compress` was given. `most`: in bytes. Raises InputError, TooManyBytes."""
    try:
        size = zstandard.frame_content_size(stored)
        if size > most:
            raise TooManyBytes(f"{size} bytes are more than {most}")
        if size < 0:  # without it, nobody knows how much memory the frame asks for
            raise InputError("the zstandard frame does not say how long it is")
        return zstandard.ZstdDecompressor().decompress(stored, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise InputError(f"not zstandard: {error}") from None
