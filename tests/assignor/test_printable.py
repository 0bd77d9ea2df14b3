"""Text from elsewhere, as it is printed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.names.printable import json_text, lines, one_line
from tests.hostile_names import HOSTILE_NAMES


@given(st.text(st.characters()))
def test_should_leave_nothing_that_a_terminal_obeys(text: str) -> None:
    assert one_line(text).isprintable()
    assert lines(text).replace("\n", "").isprintable()
    assert lines(text).count("\n") == text.count("\n")


@given(st.recursive(st.text(st.characters()), lambda inner: st.dictionaries(st.text(), inner, max_size=3)))
def test_should_keep_the_meaning_of_json(document: object) -> None:
    printed = json_text(json.dumps(document, ensure_ascii=False))

    assert printed.isprintable()
    assert json.loads(printed) == document


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_should_show_a_hostile_name_harmlessly(name: str) -> None:
    assert "\n" not in one_line(name)
    assert "\x1b" not in lines(name)


def test_should_leave_letters_of_all_scripts_and_signs_as_they_are() -> None:
    assert one_line("Zürich 日本 ✓ [red] 😀") == "Zürich 日本 ✓ [red] 😀"


def test_should_show_what_was_there() -> None:
    assert one_line("a\x1b[31m\n\u202eb") == "a\\x1b[31m\\n\\u202eb"
