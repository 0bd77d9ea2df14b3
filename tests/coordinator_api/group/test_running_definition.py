"""In which words two definitions differ, and which differences living members do not care about."""

import json
from pathlib import Path
from typing import Any

import pytest

from coordinator_api.group.administration import differences

RUNNING = Path(__file__).with_name("running_definition.json").read_text(encoding="utf-8")
SERVERS, PARTS = ("cluster", "bootstrap.servers"), ("topology", "subtopologies")


def changed(*changes: tuple[tuple[Any, ...], Any]) -> list[str]:
    """What differs after each `path` got its new value."""
    declared = json.loads(RUNNING)
    for path, value in changes:
        at = declared
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = value
    return differences(RUNNING, json.dumps(declared))


@pytest.mark.parametrize(
    "path, value, said",
    [
        (SERVERS, "c:9092", "it reads and writes a:9092,b:9092, the new one c:9092"),
        ((*PARTS, 0, "source_topics"), ["orders"], "subtopology 0 reads lines, in the new one orders"),
        ((*PARTS, 0, "source_topics"), ["lines", "b", "a"], "subtopology 0 does not read a, b, in the new one it does"),
        ((*PARTS, 1, "stores"), [], "subtopology 1 keeps counts, in the new one it does not"),
        ((*PARTS, 1, "sink_topics"), [], "subtopology 1 writes to totals, in the new one it does not"),
        ((*PARTS, 1, "id"), 2, "subtopology 1 (reads by-word, keeps counts) is not in the new one"),
        (
            (*PARTS, 1, "stores", 0, "changelog_topic"),
            "other-changelog",
            "store counts has another changelog in the new one",
        ),
        (
            (*PARTS, 1, "repartition_source_topics", 0, "partitions"),
            8,
            "repartition topic by-word is to have another number of partitions in the new one",
        ),
        (
            ("topology", "copartition_groups"),
            [["lines", "by-word"]],
            "the same topics are grouped or ordered in another way",
        ),
    ],
)
def test_should_say_in_what_the_new_definition_differs(path: tuple[Any, ...], value: object, said: str) -> None:
    assert changed((path, value))[0] == said


def test_should_name_every_difference() -> None:
    assert len(changed((SERVERS, "c:9092"), ((*PARTS, 1, "id"), 2))) == 3


def test_should_name_a_few_of_many_topics() -> None:
    (said,) = changed(((*PARTS, 0, "source_topics"), ["lines", *(f"t{number}" for number in range(9))]))

    assert said == "subtopology 0 does not read t0, t1, t2, t3, t4, and 4 more, in the new one it does"


@pytest.mark.parametrize(
    "path, value",
    [
        (SERVERS, "b:9092,c:9092"),
        (("cluster",), {"brokers": [], "topics": {}}),
        (("assignor",), "LegacyStickyTaskAssignor"),
        (("configs",), {"num.standby.replicas": 1}),
        ((*PARTS, 0, "java_hash_code"), 7),
    ],
)
def test_should_not_mind_what_members_can_go_on_under(path: tuple[Any, ...], value: object) -> None:
    assert changed((path, value)) == []
