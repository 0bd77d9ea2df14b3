"""Text as Java writes and reads it; every expected value was printed by Java 17."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.protocol import primitives

ANY_TEXT = st.text(st.characters(), max_size=20)


@pytest.mark.parametrize(
    "units, utf8, modified_utf8",
    [
        ("", "", ""),
        ("0041", "41", "41"),
        ("0000", "00", "c080"),
        ("007f0080", "7fc280", "7fc280"),
        ("07ff0800", "dfbfe0a080", "dfbfe0a080"),
        ("ffff", "efbfbf", "efbfbf"),
        ("d800dc00", "f0908080", "eda080edb080"),
        ("d800", "3f", "eda080"),
        ("dc00d800", "3f3f", "edb080eda080"),
        ("d800d800dfff", "3ff0908fbf", "eda080eda080edbfbf"),
    ],
)
def test_should_write_text_as_java_does(units: str, utf8: str, modified_utf8: str) -> None:
    text = primitives.from_utf16_units(bytes.fromhex(units))

    assert primitives.to_utf8(text).hex() == utf8
    assert primitives.to_modified_utf8(text).hex() == modified_utf8


@pytest.mark.parametrize(
    "raw, text",
    [
        ("41", "A"),
        ("f0908080", "\U00010000"),
        ("80", "\ufffd"),
        ("c080", "\ufffd\ufffd"),
        ("eda080", "\ufffd"),
        ("eda0", "\ufffd"),
        ("eda041", "\ufffdA"),
        ("eda0eda080", "\ufffd\ufffd"),
        ("e08080", "\ufffd\ufffd\ufffd"),
        ("f0908041", "\ufffdA"),
        ("f4908080", "\ufffd\ufffd\ufffd\ufffd"),
        ("e1", "\ufffd"),
    ],
)
def test_should_replace_malformed_utf8_as_java_does(raw: str, text: str) -> None:
    assert primitives.from_utf8(bytes.fromhex(raw)) == text


@pytest.mark.parametrize(
    "raw, text",
    [
        ("00", "\0"),
        ("c080", "\0"),
        ("c1bf", "\x7f"),
        ("e08080", "\0"),
        ("eda080edb080", "\U00010000"),
        ("eda080", "\ud800"),
        ("e282ac41", "€A"),
    ],
)
def test_should_read_modified_utf8_as_java_does(raw: str, text: str) -> None:
    assert primitives.malformed_modified_utf8_at(bytes.fromhex(raw)) is None
    assert primitives.from_modified_utf8(bytes.fromhex(raw)) == text


@pytest.mark.parametrize(
    "raw, at", [("4180", 1), ("c3", 0), ("41c341", 1), ("e282", 0), ("e28241", 0), ("f0908080", 0)]
)
def test_should_find_where_modified_utf8_is_malformed(raw: str, at: int) -> None:
    assert primitives.malformed_modified_utf8_at(bytes.fromhex(raw)) == at


@given(ANY_TEXT)
def test_should_read_back_any_text_but_for_pairs_written_as_two(text: str) -> None:
    as_java_means_it = primitives.from_utf16_units(primitives.to_utf16_units(text))
    raw = primitives.to_modified_utf8(text)

    assert primitives.malformed_modified_utf8_at(raw) is None
    assert primitives.from_modified_utf8(raw) == as_java_means_it


@given(st.binary(max_size=40))
def test_should_make_some_text_of_any_bytes(raw: bytes) -> None:
    text = primitives.from_utf8(raw)

    assert primitives.from_utf8(primitives.to_utf8(text)) == text
