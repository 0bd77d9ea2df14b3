"""Hash codes and iteration orders, as Java 17 gave them: 400 sets, and maps, sets and queues under load.

`java_collections` goes where the plain vectors do not: buckets so crowded that they become trees, and back.
"""

from collections.abc import Callable, Hashable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.java.hash_codes import java_hash, string_hash, task_hash
from assignor.java.order import JavaHashSet, capacity_to_copy, compute_if_absent_order, hash_set_order
from assignor.types import HostInfo, ProcessId, TaskId, TopicPartition
from tests.recorded import documents

KEY_OF: dict[str, Callable[[Any], Hashable]] = {
    "string": str,
    "task": TaskId.parse,
    "process": ProcessId.parse,
    "topic_partition": lambda item: TopicPartition(item[0], item[1]),
    "host": lambda item: HostInfo(item.rpartition(":")[0], int(item.rpartition(":")[2])),
}


@pytest.mark.parametrize("kind", sorted(KEY_OF))
def test_should_hash_as_java(kind: str) -> None:
    different = []
    for line in documents("java_order.jsonl.gz"):
        if line["kind"] == kind:
            hashes = [java_hash(KEY_OF[kind](item)) for item in line["input"]["items"]]
            if hashes != line["output"]["hashes"]:
                different.append(line["id"])
    assert different == []


@pytest.mark.parametrize("kind", sorted(KEY_OF))
def test_should_walk_a_set_in_the_order_of_java(kind: str) -> None:
    key_of, compared, different = KEY_OF[kind], 0, []
    for line in documents("java_order.jsonl.gz"):
        if line["kind"] == kind:
            compared += 1
            if list(_filled_set(line["input"], key_of)) != [key_of(item) for item in line["output"]["order"]]:
                different.append(line["id"])
    assert different == []
    assert compared > 70


def _filled_set(source: dict[str, Any], key_of: Callable[[Any], Hashable]) -> JavaHashSet[Hashable]:
    items = [key_of(item) for item in source["items"]]
    if source.get("copy"):
        filled = JavaHashSet.copy_of(items)
    else:
        filled = JavaHashSet(items, initial_capacity=source.get("initial_capacity", 16))
    for item in source.get("remove", ()):
        filled.discard(key_of(item))
    return filled


def _is_as_in_kafka(line: dict[str, Any]) -> bool:
    """Nothing is put into a map by `putAll`."""
    return line["collection"] == "set" or (line["collection"] == "map" and "add_all" not in dict(line["steps"]))


CROWDED = [line for line in documents("java_collections.jsonl.gz") if _is_as_in_kafka(line)]


@pytest.mark.parametrize("line", CROWDED, ids=lambda line: line["id"])
def test_should_keep_the_order_of_java_through_every_change_of_a_crowded_collection(line: dict[str, Any]) -> None:
    key_of = KEY_OF[line["kind"]]
    keys = _begun(line, key_of)
    for (step, items), order in zip(line["steps"], line["orders"], strict=True):
        changed = [key_of(item) for item in items]
        if step in ("add", "remove"):
            for key in changed:
                (keys.add if step == "add" else keys.discard)(key)
        elif step in ("add_all", "remove_all"):
            getattr(keys, step)(changed)
        else:
            removes = step == "remove_while_iterating"
            for key in [key for key in keys if (key in changed) is removes]:
                keys.remove_while_iterating(key)
        assert [str(key) for key in keys] == order


def _begun(line: dict[str, Any], key_of: Callable[[Any], Hashable]) -> JavaHashSet[Hashable]:
    """The keys of a map are those of a set, but its copy has another table."""
    if "copy_of" not in line:
        return JavaHashSet(initial_capacity=line.get("initial_capacity", 16))
    copied = [key_of(item) for item in line["copy_of"]]
    if line["collection"] == "set":
        return JavaHashSet.copy_of(copied)
    return JavaHashSet(copied, initial_capacity=capacity_to_copy(len(set(copied))))


@pytest.mark.parametrize(
    "text, hash_code",
    [("", 0), ("a", 97), ("AaAa", 2031744), ("BBBB", 2031744), ("é", 233), ("\U0001f600", 1772899), ("\ud83d", 55357)],
)
def test_should_hash_text_by_utf16_code_units(text: str, hash_code: int) -> None:
    assert string_hash(text) == hash_code


def test_should_count_the_name_of_a_topology_into_the_hash_of_a_task() -> None:
    assert task_hash(TaskId(0, 1, "AaAa")) == task_hash(TaskId(0, 1)) + 2031744


def test_should_refuse_to_hash_what_kafka_does_not_hash() -> None:
    with pytest.raises(TypeError, match="no Java hash code is known for float"):
        java_hash(1.5)


@given(st.integers(0, 3000), st.integers(1, 40))
def test_should_give_one_order_however_the_keys_come_in(tasks: int, subtopologies: int) -> None:
    """All at once or one by one; many subtopologies crowd the buckets."""
    keys = [TaskId(number % subtopologies, number // subtopologies) for number in range(tasks)]
    one_by_one: JavaHashSet[TaskId] = JavaHashSet()
    for key in keys:
        one_by_one.add(key)
    assert list(one_by_one) == hash_set_order(keys)


@given(st.integers(0, 200), st.sampled_from([1, 2, 3, 4, 8, 16, 24, 32, 64]), st.integers(0, 100), st.randoms())
def test_should_give_one_order_of_the_tasks_of_one_thread_among_many(
    tasks: int, threads: int, first: int, draw: Random
) -> None:
    """Every eighth task, say: their hash codes crowd the buckets of a small table, which grows early for it."""
    keys = [TaskId(0, first + number * threads) for number in range(tasks)]
    draw.shuffle(keys)
    one_by_one: JavaHashSet[TaskId] = JavaHashSet()
    for key in keys:
        one_by_one.add(key)
    assert list(one_by_one) == hash_set_order(keys, task_hash)


@given(st.lists(st.tuples(*[st.integers(0, 3) | st.integers(0, 2**70)] * 2, st.sampled_from([None] * 9 + ["AaAa"]))))
def test_should_wrap_the_hash_codes_of_tasks_with_large_numbers(fields: list[tuple[int, int, str | None]]) -> None:
    keys = [TaskId(*each) for each in fields]
    assert list(JavaHashSet(keys)) == hash_set_order(keys, task_hash)


@pytest.mark.parametrize(
    ("keys", "order"),
    [
        ([0, 16, 1, 32, 0], [32, 16, 0, 1]),
        ([-(2**31), 0, 1], [0, -(2**31), 1]),
        # the thirteenth key does not grow the table, the next call does, for whatever key
        (list(range(0, 208, 16)), [192, 160, 128, 96, 64, 32, 0, 176, 144, 112, 80, 48, 16]),
        ([*range(0, 224, 16), 0], [192, 160, 128, 96, 64, 32, 0, 208, 176, 144, 112, 80, 48, 16]),
        # a tree from eight keys on
        (
            [*range(0, 1536, 64), 0],
            [640, 384, 576, *range(704, 1473, 64), 512, 448, 320, 256, 192, 128, 64, 0],
        ),
    ],
)
def test_should_keep_the_order_of_java_when_keys_come_by_compute_if_absent(keys: list[int], order: list[int]) -> None:
    assert compute_if_absent_order(keys) == order
