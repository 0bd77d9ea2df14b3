"""How what is stored is compressed: zstandard. Earlier releases wrote gzip, which is told by its first bytes.

Rules: the same bytes give the same compressed bytes. Reading never makes more bytes than the caller allows, and takes
time in proportion to what it is given, whoever wrote it. A gzip stream may consist of several members (RFC 1952).
"""

from __future__ import annotations

import zlib

import zstandard

from assignor.errors import InputError

_LEVEL = 3
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WITH_HEADER = 31
_MOST_MEMBERS = 10_000
_FIRST_LOOK = 1_024
_LONGEST_LOOK = 1_048_576


class TooManyBytes(InputError):
    """Decompressed, there are more bytes than the caller allows."""


def compress(content: bytes) -> bytes:
    """One zstandard frame, which begins with the size of `content`."""
    return zstandard.ZstdCompressor(level=_LEVEL, write_content_size=True, write_checksum=True).compress(content)


def decompress(stored: bytes, most: int) -> bytes:
    """What `compress` was given, or what gzip holds. `most`: in bytes. Raises InputError, TooManyBytes."""
    if is_gzip(stored):
        return gunzip(stored, most)
    try:
        size = zstandard.frame_content_size(stored)
        if size > most:
            raise TooManyBytes(f"{size} bytes are more than {most}")
        if size < 0:  # without it, nobody knows how much memory the frame asks for
            raise InputError("the zstandard frame does not say how long it is")
        return zstandard.ZstdDecompressor().decompress(stored, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise InputError(f"neither zstandard nor gzip: {error}") from None


def is_gzip(stored: bytes) -> bool:
    return stored.startswith(_GZIP_MAGIC)


def gunzip(packed: bytes, most: int) -> bytes:
    """`most`: in bytes. Raises TooManyBytes; InputError for bytes that are not gzip, or of more than 10,000 members."""
    unpacked = bytearray()
    position = members = 0
    try:
        while position < len(packed):
            members += 1
            if members > _MOST_MEMBERS:
                raise InputError(f"gzip of more than {_MOST_MEMBERS} members")
            position = _read_member(packed, position, unpacked, most)
    except zlib.error as error:
        raise InputError(f"not gzip: {error}") from None
    return bytes(unpacked)


def _read_member(packed: bytes, start: int, unpacked: bytearray, most: int) -> int:
    """Appends one member to `unpacked`; returns where it ends."""
    reading = zlib.decompressobj(_GZIP_WITH_HEADER)
    position, look = start, _FIRST_LOOK
    while not reading.eof:
        if position >= len(packed):
            raise InputError("the gzip stream ends too early")
        # what is behind the end of a member is copied: a short look keeps many short members from costing much
        piece = packed[position : position + look]
        unpacked += reading.decompress(piece, most + 1 - len(unpacked))
        if len(unpacked) > most:
            raise TooManyBytes(f"unpacked there are more than {most} bytes")
        position, look = position + len(piece), min(2 * look, _LONGEST_LOOK)
    return position - len(reading.unused_data)
