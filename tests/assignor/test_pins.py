"""Weights of tasks and pins in the configs: what they take, and that everything else is refused with its path."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.configs import AssignmentConfigs
from assignor.configs.pins import (
    Pin,
    TaskPattern,
    TaskWeights,
    pins_document,
    pins_from,
    weights_document,
    weights_from,
)
from assignor.recording import dotted_configs
from assignor.types import TaskId

WEIGHTS = "minimal.movement.task.weights"
PINS = "minimal.movement.pins"


def test_should_read_weights_and_pins_as_objects_and_as_json_text_of_them() -> None:
    weights: object = {"0_3": 5, "named__1_0": 0.5}
    pins: object = [{"tasks": ["0_3", "1_*"], "tags": {"zone": "a"}}, {"tasks": ["*"], "apart": "host"}]
    configs = AssignmentConfigs.from_dotted({WEIGHTS: weights, PINS: pins})
    assert configs.minimal_movement_task_weights == TaskWeights(((TaskId(0, 3), 5), (TaskId(1, 0, "named"), 0.5)))
    assert configs.minimal_movement_pins == (
        Pin((TaskPattern(0, 3), TaskPattern(1, None)), tags=(("zone", "a"),)),
        Pin((TaskPattern(None, None),), apart="host"),
    )
    assert AssignmentConfigs.from_dotted({WEIGHTS: json.dumps(weights), PINS: json.dumps(pins)}) == configs


def test_should_tell_tasks_of_named_topologies_apart() -> None:
    weights = weights_from({"b__0_3": 1, "0_3": 2, "a__0_3": 3}, "here")
    assert weights == TaskWeights(((TaskId(0, 3), 2), (TaskId(0, 3, "a"), 3), (TaskId(0, 3, "b"), 1)))


def test_should_write_back_what_was_read_and_nothing_when_nothing_was_said() -> None:
    said = {WEIGHTS: {"0_3": 5}, PINS: [{"tasks": ["n__0_*"], "apart": "process"}]}
    dotted = dotted_configs(AssignmentConfigs.from_dotted(said))
    assert {key: value for key, value in dotted.items() if key.startswith("minimal.")} == said
    assert dotted_configs(AssignmentConfigs.from_dotted({WEIGHTS: "restore-size"}))[WEIGHTS] == "restore-size"
    assert not {WEIGHTS, PINS} & dotted_configs(AssignmentConfigs()).keys()
    assert AssignmentConfigs.from_dotted({WEIGHTS: None, PINS: None}) == AssignmentConfigs()


@pytest.mark.parametrize(
    ("pattern", "task", "matches"),
    [
        ("*", "0_3", True),
        ("*", "named__4_0", True),
        ("0_*", "0_3", True),
        ("0_*", "1_3", False),
        ("0_*", "named__0_3", False),
        ("named__0_*", "named__0_3", True),
        ("0_3", "0_3", True),
        ("0_3", "0_4", False),
    ],
)
def test_should_name_one_task_a_subtopology_or_all(pattern: str, task: str, matches: bool) -> None:
    assert TaskPattern.parse(pattern).matches(TaskId.parse(task)) is matches
    assert str(TaskPattern.parse(pattern)) == pattern


numbers = st.integers(0, 99)
task_ids = st.builds(TaskId, numbers, numbers, st.none() | st.just("named"))
task_patterns = st.just(TaskPattern(None, None)) | st.builds(
    TaskPattern, numbers, st.none() | numbers, st.none() | st.just("named")
)
texts = st.text(min_size=1, max_size=5)
any_pins = st.builds(
    Pin,
    st.lists(task_patterns, min_size=1, max_size=3).map(tuple),
    tags=st.dictionaries(texts, texts, min_size=1, max_size=3).map(lambda tags: tuple(sorted(tags.items()))),
) | st.builds(Pin, st.lists(task_patterns, min_size=1, max_size=3).map(tuple), apart=texts)


@given(st.lists(any_pins, max_size=4).map(tuple), st.dictionaries(task_ids, st.floats(1e-9, 1e15), max_size=4))
def test_should_read_what_it_writes(pins: tuple[Pin, ...], of_tasks: dict[TaskId, float]) -> None:
    weights = TaskWeights(tuple(sorted(of_tasks.items(), key=lambda entry: str(entry[0]))))
    assert pins_from(json.loads(json.dumps(pins_document(pins))), "here") == pins
    read = weights_from(json.loads(json.dumps(weights_document(weights))), "here")
    assert read is not None
    assert dict(read.weights) == of_tasks
