"""A persistent map is a dict whose earlier versions stay."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_api.group.persistent_map import PersistentMap

keys = st.integers(0, 60)
changes = st.lists(st.tuples(keys, st.none() | st.integers()), max_size=200)


@given(st.dictionaries(keys, st.integers()), changes)
def test_should_do_what_a_dict_does_in_every_version(first: dict[int, int], then: list[tuple[int, int | None]]) -> None:
    expected = dict(first)
    versions = [(PersistentMap(first), dict(expected))]
    for key, value in then:
        if value is None:
            expected.pop(key, None)
            changed = versions[-1][0].without(key)
        else:
            expected[key] = value
            changed = versions[-1][0].with_value(key, value)
        versions.append((changed, dict(expected)))
    for version, as_dict in versions:
        assert list(version.items()) == list(as_dict.items())
        assert len(version) == len(as_dict)
        assert version == as_dict
        assert {key: version.get(key) for key in range(61)} == {key: as_dict.get(key) for key in range(61)}
        assert {key for key in range(61) if key in version} == as_dict.keys()
        assert list(version.mapped(lambda key, value: key + value).items()) == [
            (key, key + value) for key, value in as_dict.items()
        ]


def test_should_refuse_a_key_that_is_not_there() -> None:
    version = PersistentMap({1: "a"}).with_value(2, "b").without(1)
    for key in (1, 3):
        with pytest.raises(KeyError):
            version[key]
    assert version.without(7) is version


def test_should_not_change_with_the_dict_that_it_was_made_of() -> None:
    made_of = {1: "a"}
    version = PersistentMap(made_of)
    made_of[2] = "b"
    assert dict(version) == {1: "a"}


def test_should_cost_much_less_than_the_whole_for_one_change() -> None:
    """Ten thousand changes of a map of ten thousand: copying each time would take a minute."""
    version = PersistentMap(dict.fromkeys(range(10_000), 0))
    started = time.process_time()
    for key in range(10_000):
        version = version.with_value(key, 1).without((key * 7) % 10_000).with_value(-key, 2)
    assert time.process_time() - started < 10
    assert len(version) > 0
