"""A recording is stored with its shared bytes once, and comes back byte for byte; what older releases wrote is read."""

import base64
import gzip
import json
from typing import Any

import pytest
import zstandard

from assignor.errors import AssignorFault, InputError
from assignor.protocol.assignment_packing import share
from assignor.protocol.shared_assignments import NO_ASSIGNMENTS
from coordinator_api.group.compression import TooManyBytes, compress, decompress
from coordinator_api.store.recorded_documents import expanded, pack_document, pack_whole_document, read_recorded
from tests.recorded import documents


def as_json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode("ascii")


def recorded() -> list[dict[str, Any]]:
    return [document for document in documents("recordings/threads2.jsonl.gz") if "output" in document]


def test_a_document_comes_back_byte_for_byte() -> None:
    found = recorded()
    assert any(len(document["output"]["assignments"]) > 1 for document in found)
    for document in found:
        stored = pack_whole_document(document)
        assert not stored.startswith(b"\x1f\x8b")
        assert b"".join(expanded(stored)) == as_json(document)


@pytest.mark.parametrize("order", [1, -1])
def test_fields_keep_their_places_whatever_they_are_called(order: int) -> None:
    output: dict[str, object] = {
        "a": '"assignments":{}',
        "assignments": {'m\u00fc"': "AAAA", "n": ""},
        "z": [None, {"assignments": {}}],
    }
    document = {"output": dict(list(output.items())[::order]), "x": {"output": 1}}
    document = dict(list(document.items())[::order])
    assert b"".join(expanded(pack_whole_document(document))) == as_json(document)
    alone: dict[str, object] = {"output": {"assignments": {}}}
    assert b"".join(expanded(pack_whole_document(alone))) == as_json(alone)


def test_what_is_read_for_a_rerun_is_the_document_and_its_assignments() -> None:
    (document, *_) = recorded()
    assignments = {name: base64.b64decode(text) for name, text in document["output"]["assignments"].items()}
    emptied = {**document, "output": {**document["output"], "assignments": {}}}
    for stored in (pack_document(emptied, share(assignments)), gzip.compress(as_json(document))):
        read = read_recorded(stored)
        assert read.document == emptied
        assert read.assignments == assignments


def test_base64_in_another_spelling_is_stored_as_it_was_sent() -> None:
    document = {"output": {"assignments": {"m": "AB=="}}}  # the last four bits are not 0
    assert base64.b64encode(base64.b64decode("AB==")) != b"AB=="
    assert b"".join(expanded(pack_whole_document(document))) == as_json(document)


def test_a_document_that_is_stored_as_gzip_is_read_in_chunks() -> None:
    document = as_json({"output": {"assignments": {str(n): "A" * 1_000 for n in range(2_000)}}})
    assert b"".join(expanded(gzip.compress(document, mtime=0))) == document


def test_a_document_that_is_stored_as_several_gzip_members_is_read_as_a_whole() -> None:
    document = as_json({"output": {"assignments": {"m": "AAAA"}}})
    stored = gzip.compress(document[:9], mtime=0) + gzip.compress(document[9:], mtime=0)
    assert b"".join(expanded(stored)) == document
    assert read_recorded(stored).assignments == {"m": bytes(3)}


def test_gzip_that_expands_to_more_than_a_document_may_have_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator_api.store.recorded_documents._LONGEST", 100_000)
    stored = gzip.compress(b" " * 100_001, mtime=0)
    for read in (read_recorded, lambda stored: list(expanded(stored))):
        with pytest.raises(AssignorFault, match="the gzip stream has more than 100000 bytes"):
            read(stored)


def test_gzip_of_what_is_no_json_is_an_error() -> None:
    with pytest.raises(AssignorFault, match="not JSON"):
        read_recorded(gzip.compress(b"{}{}", mtime=0))


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        (gzip.compress(b"{}", mtime=0)[:-3], "^the gzip stream ends too early$"),
        (b"\x1f\x8b" + b"plain" * 4, "^not gzip: "),
    ],
)
def test_damaged_gzip_is_not_blamed_on_the_json_in_it(stored: bytes, said: str) -> None:
    for read in (read_recorded, lambda stored: list(expanded(stored))):
        with pytest.raises(AssignorFault, match=said):
            read(stored)


def test_what_all_members_share_is_stored_once() -> None:
    shared = bytes(range(256)) * 100
    whole: dict[str, object] = {"output": {"assignments": {}}}
    one = pack_document(whole, share({"a": b"1" + shared}))
    assert len(pack_document(whole, NO_ASSIGNMENTS)) < len(one) < 30_000


EMPTY = pack_document({"output": {"assignments": {}}}, NO_ASSIGNMENTS)


@pytest.mark.parametrize("damaged", [b"", b"plain", gzip.compress(b"{}", mtime=0)[:-3], EMPTY[:-3]])
def test_a_damaged_row_is_an_error(damaged: bytes) -> None:
    with pytest.raises(AssignorFault):
        list(expanded(damaged))


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
