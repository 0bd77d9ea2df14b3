"""Kafka's rule for names, in one place."""

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assignor.errors import InputError
from assignor.names.legal_names import LONGEST_NAME, NAME_PATTERN, checked_name, is_legal_name, shown_name
from tests.hostile_names import HOSTILE_NAMES

LETTERS = frozenset(string.ascii_letters + string.digits + "._-")
"""Source: `Topic.LEGAL_CHARS`."""

TEXTS = st.one_of(st.text(), st.text(sorted(LETTERS), max_size=300), st.from_regex(r"\A[._-]{0,3}\n?\Z"))


def by_kafka(name: str) -> bool:
    """As `Topic.validate` decides."""
    return name not in ("", ".", "..") and len(name) <= 249 and all(letter in LETTERS for letter in name)


@given(TEXTS)
@example("a\n")
@example("n" * LONGEST_NAME)
@example("n" * (LONGEST_NAME + 1))
def test_should_take_a_name_if_and_only_if_kafka_takes_it(name: str) -> None:
    assert is_legal_name(name) == by_kafka(name)


@given(st.text(sorted(LETTERS), max_size=300))
def test_should_say_the_same_in_schemas(name: str) -> None:
    import re

    assert (re.search(NAME_PATTERN, name) is not None) == is_legal_name(name)


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_should_refuse_a_hostile_name_in_one_printable_line(name: str) -> None:
    with pytest.raises(InputError) as refused:
        checked_name(name, "the name of a topic", "topics")

    assert refused.value.where == "topics"
    assert str(refused.value).isprintable()
    assert str(refused.value).isascii()


@given(st.text(max_size=2_000))
def test_should_show_any_name_in_a_line_of_bounded_length(name: str) -> None:
    shown = shown_name(name)

    assert shown.isprintable()
    assert len(shown) < 1_000
