"""Converts recorded rebalances (rebalance/1) to the form in which they are stored, and back. The stored form has the
common part of the assignments only once.

The stored form has three parts, which zstandard compresses together:

- The text before the assignments. The length of the text comes first, as an int32. The text follows in UTF-8.
- The text after the assignments, in the same form.
- The packed assignments are the last part.

The expanded document equals the packed JSON byte for byte. The document has three parts: the text before the
assignments, the assignments in base64, and the text after them. The JSON may be a hundred times as long as its stored
form. So `expanded` yields the JSON in chunks. If the assignments of a document are not in canonical base64, the
document is stored as gzip of its JSON.
"""

import base64
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import NamedTuple

from assignor.errors import InputError
from assignor.protocol.assignment_packing import pack, share, unpack
from assignor.protocol.primitives import Reader, Writer
from assignor.protocol.shared_assignments import SharedAssignments
from coordinator_api.group.compression import TooManyBytes, compress, decompress

_LONGEST = 2**30
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_CHUNK = 65_536


def pack_document(document: Mapping[str, object], assignments: SharedAssignments) -> bytes:
    """Returns the stored form. `document`: a rebalance/1, whose `output.assignments` are replaced by `assignments`."""
    before, after = _around_the_assignments(document)
    writer = Writer()
    writer.nullable_byte_array(before, "text before the assignments")
    writer.nullable_byte_array(after, "text after the assignments")
    writer.raw(pack(assignments))
    return compress(writer.to_bytes())


def pack_whole_document(document: Mapping[str, object]) -> bytes:
    """Returns the stored form of a rebalance/1 that another leader reported, with its assignments in base64.

    If an assignment is not in canonical base64, the document is stored as gzip, so that `expanded` returns it
    unchanged.
    """
    output = document["output"]
    assert isinstance(output, Mapping), "checked"
    texts: Mapping[str, str] = output["assignments"]
    assignments = {member_id: base64.b64decode(text) for member_id, text in texts.items()}
    if any(base64.b64encode(raw) != texts[member_id].encode() for member_id, raw in assignments.items()):
        return gzip.compress(_json(document), mtime=0)
    return pack_document(document, share(assignments))


def expanded(stored: bytes) -> Iterator[bytes]:
    """Yields the rebalance/1 document as JSON, usually one chunk for each member. Raises InputError or DecodeError."""
    if stored.startswith(_GZIP_MAGIC):
        yield from _gunzipped(stored)
        return
    before, assignments, after = _unpacked(stored)
    yield before
    for number, (member_id, raw) in enumerate(assignments.items()):
        comma = b"," if number else b""
        yield b'%b%b:"%b"' % (comma, _json(member_id), base64.b64encode(raw))
    yield after


class RecordedDocument(NamedTuple):
    """A recorded rebalance in two parts. `document`: the rebalance/1 with an empty `output.assignments`. `assignments`:
    the output's assignments, by member id.
    """

    document: dict[str, object]
    assignments: Mapping[str, bytes]


def read_recorded(stored: bytes) -> RecordedDocument:
    """Parses a stored rebalance. The assignments of a packed document are not converted to base64. So the whole JSON
    text is never in memory. Raises InputError or DecodeError.
    """
    if stored.startswith(_GZIP_MAGIC):
        # call `_gunzipped` outside of the try block: an InputError of `_gunzipped` is also a ValueError, which the
        # block catches
        text = b"".join(_gunzipped(stored))
        try:
            document = json.loads(text)
        except ValueError as error:
            raise InputError(f"not JSON: {error}") from None
        output = document["output"]
        texts, output["assignments"] = output["assignments"], {}
        return RecordedDocument(document, {name: base64.b64decode(text) for name, text in texts.items()})
    before, assignments, after = _unpacked(stored)
    return RecordedDocument(json.loads(before + after), assignments)


def _unpacked(stored: bytes) -> tuple[bytes, SharedAssignments, bytes]:
    reader = Reader(decompress(stored, _LONGEST), "recorded rebalance")
    before, after = reader.byte_array("text before the assignments"), reader.byte_array("text after the assignments")
    return before, unpack(reader.raw(reader.remaining, "assignments")), after


def _around_the_assignments(document: Mapping[str, object]) -> tuple[bytes, bytes]:
    """Returns the texts before and after the assignments, such as `{... "output":{... "assignments":{` and `} ...}`."""
    output = document["output"]
    assert isinstance(output, Mapping), "every recorded rebalance has an output"
    before, after = _split(document, "output")
    output_before, output_after = _split(output, "assignments")
    opening = [b"{", *(each + b"," for each in before), b'"output":{', *(each + b"," for each in output_before)]
    closing = [b"}", *(b"," + each for each in output_after), b"}", *(b"," + each for each in after), b"}"]
    return b"".join([*opening, b'"assignments":{']), b"".join(closing)


def _split(fields: Mapping[str, object], at: str) -> tuple[list[bytes], list[bytes]]:
    """Returns the JSON of the fields before one field, and the JSON of the fields after it. `at`: the name of the field
    between the two texts.
    """
    names = list(fields)
    place = names.index(at)

    def written(some: list[str]) -> list[bytes]:
        return [_json(name) + b":" + _json(fields[name]) for name in some]

    return written(names[:place]), written(names[place + 1 :])


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def _gunzipped(stored: bytes) -> Iterator[bytes]:
    left = _LONGEST
    try:
        with gzip.open(BytesIO(stored)) as reading:
            while chunk := reading.read(_GZIP_CHUNK):
                left -= len(chunk)
                if left < 0:
                    raise TooManyBytes(f"the gzip stream has more than {_LONGEST} bytes")
                yield chunk
    except EOFError:
        raise InputError("the gzip stream ends too early") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"not gzip: {error}") from None
