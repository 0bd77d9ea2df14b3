"""Changes of a table as bytes, in Kafka's three forms (KIP-904)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.errors import StreamsError
from streams_runtime.dsl.change import Change, ChangedSerde
from streams_runtime.dsl.windows import TimeWindowedSerde
from streams_runtime.serdes import BYTES, STRING
from streams_runtime.state_stores.state_store import Windowed

SERDE = ChangedSerde(STRING)
FORMS = [
    (Change("new", None), b"new\x01"),
    (Change(None, "old"), b"old\x00"),
    (Change("new", "older"), b"\x06newolder\x02"),
    (Change("x" * 64, "y"), b"\x80\x01" + b"x" * 64 + b"y\x02"),
    (Change("", ""), b"\x00\x02"),
]


@given(st.none() | st.binary(max_size=300), st.none() | st.binary(max_size=300))
def test_should_read_what_it_wrote(new: bytes | None, old: bytes | None) -> None:
    serde = ChangedSerde(BYTES)
    if new is None and old is None:
        with pytest.raises(StreamsError, match="Both old and new values are null"):
            serde.serialize(Change(new, old))
    else:
        assert serde.deserialize(serde.serialize(Change(new, old))) == Change(new, old)


@pytest.mark.parametrize("data", [b"", b"value\x03", b"\x06ne\x02", b"\xff\xff\xff\xff\xff\xff\x02", b"\x01new\x02"])
def test_should_refuse_bytes_that_are_no_change(data: bytes) -> None:
    with pytest.raises(StreamsError):
        SERDE.deserialize(data)


class Buffering:
    """A serde of the user's own."""

    def serialize(self, value: str, /) -> Any:
        return bytearray(value.encode())

    def deserialize(self, data: bytes, /) -> str:
        return data.decode()


@pytest.mark.parametrize("change, data", FORMS)
def test_should_make_bytes_of_what_an_inner_serde_gives(change: Change[str], data: bytes) -> None:
    """A sink looks up the partition of a key by its bytes."""
    written = ChangedSerde(Buffering()).serialize(change)
    assert (type(written), written) == (bytes, data)
    key = TimeWindowedSerde(Buffering(), 10).serialize(Windowed("k", 1, 11))
    assert (type(key), key) == (bytes, b"k" + (1).to_bytes(8, "big"))
