"""Java's three ways of writing text as bytes, in both directions.

The protocols of a rebalance use all three: the consumer protocol and SubscriptionInfo use UTF-8
(`String.getBytes(UTF_8)`); AssignmentInfo uses modified UTF-8 for topics and hosts (`DataOutputStream.writeUTF`) and
plain UTF-16 code units for topology names (`DataOutputStream.writeChars`). Source: `ByteBufferAccessor`,
`AssignmentInfo`, `ConsumerProtocolUtils`.

A Java string is a sequence of UTF-16 code units, and may contain an unpaired surrogate. Such a unit is the Python
character of the same number here; a pair is always the one character it means.
"""

from __future__ import annotations

import re
import struct

MAX_MODIFIED_UTF8_BYTES = 0xFFFF
"""The length prefix of `writeUTF` is an unsigned 16-bit number."""

_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\ufffd".encode()
_MODIFIED_UNIT = re.compile(rb"[\x00-\x7f]|[\xc0-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}")
_MODIFIED_TEXT = re.compile(rb"(?:[\x00-\x7f]|[\xc0-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2})*+")


def to_utf8(text: str) -> bytes:
    """`text.getBytes(UTF_8)`: every unpaired surrogate becomes a question mark."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return from_utf16_units(to_utf16_units(text)).encode(errors="replace")


def from_utf8(raw: bytes) -> str:
    """`new String(raw, UTF_8)`: never fails; malformed bytes become U+FFFD.

    A surrogate written as a character, whole or cut off after two bytes, is one U+FFFD in Java, and one for each byte
    in Python; all other cases agree.
    """
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _ENCODED_SURROGATE.sub(_REPLACEMENT, raw).decode(errors="replace")


def to_utf16_units(text: str) -> bytes:
    """The code units of `text`, two bytes each, high byte first."""
    return text.encode("utf-16-be", "surrogatepass")


def from_utf16_units(raw: bytes) -> str:
    """The string made of these code units; `raw` has an even length."""
    return raw.decode("utf-16-be", "surrogatepass")


def to_modified_utf8(text: str) -> bytes:
    """The body of `writeUTF(text)`, without the length: NUL in two bytes, each surrogate in three."""
    if text.isascii() and "\0" not in text:
        return text.encode("ascii")
    units = to_utf16_units(text)
    return b"".join(_modified_unit(unit) for (unit,) in struct.iter_unpack(">H", units))


def _modified_unit(unit: int) -> bytes:
    if unit == 0:
        return b"\xc0\x80"
    return chr(unit).encode("utf-8", "surrogatepass")


def malformed_modified_utf8_at(raw: bytes) -> int | None:
    """The index of the first byte that makes `readUTF` fail on `raw`; None when it does not fail."""
    if raw.isascii():
        return None
    match = _MODIFIED_TEXT.match(raw)
    end = match.end() if match is not None else 0
    return None if end == len(raw) else end


def from_modified_utf8(raw: bytes) -> str:
    """What `readUTF` returns for a well-formed `raw`. Like Java it accepts overlong forms of a character."""
    if raw.isascii():
        return raw.decode("ascii")
    return from_utf16_units(b"".join(_unit(match[0]) for match in _MODIFIED_UNIT.finditer(raw)))


def _unit(raw: bytes) -> bytes:
    if len(raw) == 1:
        return b"\0" + raw
    if len(raw) == 2:
        return ((raw[0] & 0x1F) << 6 | raw[1] & 0x3F).to_bytes(2, "big")
    return ((raw[0] & 0x0F) << 12 | (raw[1] & 0x3F) << 6 | raw[2] & 0x3F).to_bytes(2, "big")
