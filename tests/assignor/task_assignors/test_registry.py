import re
from pathlib import Path

import pytest

from assignor.errors import InputError
from assignor.task_assignors.base import validate_placement as original_validate_placement
from assignor.task_assignors.high_availability import HighAvailabilityTaskAssignor
from assignor.task_assignors.registry import BUILT_IN_ASSIGNORS, task_assignor_named, validate_placement
from tests.assignor.task_assignors.own_assignors import EverythingOnTheFirst

OWN = "tests.assignor.task_assignors.own_assignors"


@pytest.mark.parametrize("name", sorted(BUILT_IN_ASSIGNORS))
def test_should_know_kafkas_assignors_by_name(name: str) -> None:
    assert task_assignor_named(name).name == name


def test_should_make_a_users_own_class() -> None:
    assert type(task_assignor_named(f"{OWN}:EverythingOnTheFirst")) is EverythingOnTheFirst


def test_should_make_a_built_in_class_by_its_path_too() -> None:
    path = "assignor.task_assignors.high_availability:HighAvailabilityTaskAssignor"
    assert type(task_assignor_named(path)) is HighAvailabilityTaskAssignor


def test_should_offer_the_check_of_placements_beside_the_names() -> None:
    assert validate_placement is original_validate_placement


@pytest.mark.parametrize(
    "name, message",
    [
        ("HighAvailabilityAssignor", "unknown task assignor .* did you mean 'HighAvailabilityTaskAssignor'"),
        ("LegacySticky", "did you mean 'LegacyStickyTaskAssignor'"),
        ("no_such_module:Own", "there is no module 'no_such_module' to import"),
        (f"{OWN}.deeper:Own", f"there is no module '{OWN}.deeper' to import"),
        (f"{OWN}:Missing", f"module '{OWN}' has no 'Missing'"),
        (f"{OWN}:", f"module '{OWN}' has no ''"),
        (":Own", "importing '' failed"),
        (f"{OWN}:not_a_class", "is not a class"),
        (f"{OWN}:HasNoAssign", r"has no method assign\(problem, log\)"),
        (f"{OWN}:NeedsAnArgument", "cannot be made without arguments: TypeError"),
        (f"{OWN}:HasNoName", "has no text attribute name"),
    ],
)
def test_should_say_what_is_wrong_with_a_name(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        task_assignor_named(name)


@pytest.mark.parametrize(
    "module, source, message",
    [
        ("lacks_a_dependency", "import missing", "importing 'lacks_a_dependency' failed: No module named 'missing'"),
        ("divides_by_zero", "1 / 0", "importing 'divides_by_zero' failed: ZeroDivisionError: division by zero"),
        ("loads_it_later", "def __getattr__(name): import missing", "loading 'Own' failed: ModuleNotFoundError"),
    ],
)
def test_should_tell_a_module_that_fails_from_one_that_is_not_there(
    module: str, source: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=re.escape(message)):
        task_assignor_named(f"{module}:Own")
