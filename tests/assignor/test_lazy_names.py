"""Public names are loaded when they are used."""

import assignor
from assignor.names.lazy_names import LazyNames


def test_should_list_and_keep_names_of_a_package_that_are_loaded_late() -> None:
    names = {"__name__": "assignor", "__spec__": assignor.__spec__}
    lazy = LazyNames(names)
    assert set(assignor.__all__) <= set(lazy.listed())
    assert lazy.load("TaskId") is names["TaskId"]
